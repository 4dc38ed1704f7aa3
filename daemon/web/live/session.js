// A live session over a WebSocket. When the connection breaks, it goes on over another one: what was sent lately is kept,
// and sent again from where the daemon says.

const KEPT_SECONDS = 30;
const RETRY_MS = 500;
const MOST_UNSENT_BYTES = 1 << 18;
const GOODBYE = new Set([1000, 1008, 1009, 1011, 1012, 1013]);

export class LiveSession {
  // `on` has the functions `event(event)`, `text(text)` (all text so far), `broken()` and `closed(code, reason, opened)`.
  constructor(path, parameters, key, on) {
    this.path = path;
    this.parameters = parameters;
    this.protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : [];
    this.on = on;
    this.kept = [];
    this.sent = 0;
    this.text = "";
    this.ended = false;
    this.connect(parameters);
  }

  connect(parameters) {
    const url = new URL(this.path, document.baseURI);
    url.protocol = url.protocol.replace("http", "ws");
    url.search = new URLSearchParams(parameters);
    this.ready = false;
    this.socket = new WebSocket(url, this.protocols);
    this.socket.onmessage = ({ data }) => this.hear(JSON.parse(data));
    this.socket.onclose = ({ code, reason }) => this.lose(code, reason);
  }

  send(samples) {
    this.kept.push({ at: this.sent, samples });
    this.sent += samples.length;
    while (this.kept[0].at < this.sent - KEPT_SECONDS * this.parameters.sample_rate) this.kept.shift();
    if (this.ready) this.socket.send(samples);
  }

  // Resolves when a fast source may go on.
  async hasRoom() {
    while (!this.closed && (!this.ready || this.socket.bufferedAmount > MOST_UNSENT_BYTES))
      await new Promise((resolve) => setTimeout(resolve, 20));
  }

  end() {
    this.ended = true;
    if (this.ready) this.socket.send('{"type": "end"}');
  }

  // Ends the session without waiting for its text.
  abort() {
    this.givenUp = true;
    this.socket.close();
  }

  hear(event) {
    if (event.type === "session.created") this.open(event);
    if (event.type === "transcript.text.delta") this.tell(this.text + event.delta);
    this.on.event(event);
  }

  open(event) {
    this.id = event.id;
    this.resumeUntil = 0;
    this.resumeMs = event.resume_ms;
    if (event.resumed) this.tell(event.text);
    for (const { at, samples } of this.kept) {
      const known = Math.max(0, event.next_sample - at);
      if (known < samples.length) this.socket.send(samples.subarray(known));
    }
    this.ready = true;
    if (this.ended) this.end();
  }

  tell(text) {
    this.text = text;
    this.on.text(text);
  }

  lose(code, reason) {
    this.ready = false;
    const opened = Boolean(this.id);
    if (opened && !GOODBYE.has(code) && !this.givenUp && this.resumeMs) {
      this.resumeUntil ||= Date.now() + this.resumeMs;
      if (Date.now() < this.resumeUntil) {
        this.on.broken();
        setTimeout(() => this.connect({ session_id: this.id, offset: this.kept[0]?.at ?? this.sent }), RETRY_MS);
        return;
      }
    }
    this.closed = true;
    this.on.closed(code, reason, opened);
  }
}
