// Where audio comes from: the microphone, or a recording. Both hand out mono 16-bit samples and their peak.

const PIECE_SECONDS = 0.1;

// Whether this page may use the microphone; browsers allow it on https and on localhost only.
export const hasMicrophone = () => window.isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);

export class Microphone {
  // Asks for the microphone. Call it from a click: browsers start audio for nothing less.
  static async open() {
    const context = new AudioContext();
    try {
      const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
      const stream = await navigator.mediaDevices.getUserMedia({ audio });
      await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
      await context.resume();
      return new Microphone(context, stream);
    } catch (error) {
      await context.close();
      throw error;
    }
  }

  constructor(context, stream) {
    this.context = context;
    this.stream = stream;
    this.sampleRate = context.sampleRate;
  }

  // Calls `take(samples, peak)` until `close`, and `ended` when the microphone goes away by itself.
  start(take, ended) {
    const recorder = new AudioWorkletNode(this.context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => take(data.samples, data.peak);
    this.context.createMediaStreamSource(this.stream).connect(recorder);
    for (const track of this.stream.getTracks()) track.addEventListener("ended", ended);
  }

  async close() {
    for (const track of this.stream.getTracks()) track.stop();
    if (this.context.state !== "closed") await this.context.close();
  }
}

export class Recording {
  // Decodes a file as far as the browser can.
  static async open(file) {
    const context = new AudioContext();
    try {
      return new Recording(await context.decodeAudioData(await file.arrayBuffer()));
    } finally {
      await context.close();
    }
  }

  constructor(buffer) {
    this.buffer = buffer;
    this.sampleRate = buffer.sampleRate;
  }

  // Calls `take(samples, peak)` as fast as `hasRoom()` resolves, then `ended`.
  async start(take, ended, hasRoom) {
    const size = Math.round(this.sampleRate * PIECE_SECONDS);
    for (let at = 0; at < this.buffer.length && !this.closed; at += size) {
      await hasRoom();
      take(...this.piece(at, Math.min(size, this.buffer.length - at)));
    }
    ended();
  }

  piece(start, size) {
    const samples = new Int16Array(size);
    const channels = Array.from({ length: this.buffer.numberOfChannels }, (_, index) => this.buffer.getChannelData(index));
    let peak = 0;
    for (let at = 0; at < size; at++) {
      let sample = 0;
      for (const channel of channels) sample += channel[start + at] / channels.length;
      peak = Math.max(peak, Math.abs(sample));
      samples[at] = Math.max(-1, Math.min(1, sample)) * 32767;
    }
    return [samples, peak];
  }

  async close() {
    this.closed = true;
  }
}
