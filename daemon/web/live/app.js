// The page: one button, a level meter, and the text as it comes.

import { LiveSession } from "./session.js";
import { hasMicrophone, Microphone, Recording } from "./sources.js";

const LIVE = "v1/audio/transcriptions/live";
const SILENCE_DB = -60;

const element = (id) => document.getElementById(id);
const talk = element("talk");
let source = null;
let session = null;
let wakeLock = null;
let failure = "";

function say(text, isError = false) {
  element("status").textContent = text;
  element("status").classList.toggle("error", isError);
}

async function models() {
  const key = element("key").value;
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch("v1/models", { headers });
  if (response.status === 401) element("key-label").hidden = false;
  if (!response.ok) throw new Error((await response.json()).error.message);
  return (await response.json()).data.filter((row) => row.task === "asr" && row.mode === "streaming");
}

async function listModels() {
  try {
    const rows = await models();
    element("model").replaceChildren(...rows.map((row) => new Option(row.id)));
    if (!rows.length) say("No model for live transcription is configured.", true);
    else if (!hasMicrophone()) say("The microphone needs https, or localhost. A recording can be transcribed.");
    else say("");
    talk.disabled = !rows.length || !hasMicrophone();
    element("file").disabled = !rows.length;
  } catch (error) {
    talk.disabled = true;
    say(error.message, true);
  }
}

async function start(open) {
  setRunning(true);
  failure = "";
  try {
    say("Waiting for the audio …");
    source = await open();
    show("", "");
    element("timing").textContent = "";
    say("Waiting for the model …");
    const parameters = { model: element("model").value, sample_rate: source.sampleRate, partials: "true" };
    session = new LiveSession(LIVE, parameters, element("key").value, { event, text, broken, closed });
    const live = session;
    const take = (samples, peak) => {
      showLevel(peak);
      live.send(samples);
    };
    source.start(take, stop, () => live.hasRoom());
    wakeLock = await navigator.wakeLock?.request("screen").catch(() => null);
  } catch (error) {
    await finish();
    say(error.name === "NotAllowedError" ? "The microphone may not be used here." : error.message, true);
  }
}

// Ends the audio; the rest of the text still comes.
function stop() {
  if (!session || session.ended) return;
  talk.disabled = true;
  say("Waiting for the last words …");
  source.close();
  showLevel(0);
  session.end();
}

function event(event) {
  if (event.type === "session.created") say("Listening.");
  if (event.type === "transcript.text.partial") show(session.text, event.text);
  if (event.type === "error") failure = event.error.message;
  if (event.type === "transcript.text.done") showTiming(event.timing);
}

function text(text) {
  show(text, "");
}

function broken() {
  say("The connection broke. Trying again …");
}

async function closed(code, reason, opened) {
  await finish();
  if (failure) say(failure, true);
  else if (code === 1000) say("Done.");
  else if (code === 1012) say("The daemon is restarting.");
  else say(opened ? `The session ended (${code} ${reason}).` : await reasonOfRefusal(), true);
}

// A browser does not tell why an upgrade was refused.
async function reasonOfRefusal() {
  try {
    const row = (await models()).find(({ id }) => id === element("model").value);
    if (!row) return "The model is gone.";
    if (row.active_slots + row.reserved_slots >= row.slots) return "All places of this model are taken.";
    return row.reason ?? "The session could not be opened.";
  } catch (error) {
    return error.message;
  }
}

async function finish() {
  await source?.close();
  await wakeLock?.release();
  source = session = wakeLock = null;
  showLevel(0);
  setRunning(false);
}

function setRunning(isRunning) {
  talk.textContent = isRunning ? "Stop" : "Start";
  talk.classList.toggle("running", isRunning);
  talk.disabled = !isRunning && !hasMicrophone();
  for (const id of ["model", "key", "file"]) element(id).disabled = isRunning;
}

function show(final, partial) {
  element("final").textContent = final;
  element("partial").textContent = partial;
}

function showLevel(peak) {
  element("level").value = peak ? Math.max(0, 1 - (20 * Math.log10(peak)) / SILENCE_DB) : 0;
}

function showTiming({ audio_ms, final_latency_ms }) {
  const seconds = `${(audio_ms / 1000).toFixed(1)} s heard`;
  const latency = final_latency_ms === null ? "" : `, last words after ${Math.round(final_latency_ms)} ms`;
  element("timing").textContent = seconds + latency;
}

element("controls").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  if (session) stop();
  else if (!source) start(() => Microphone.open());
});
element("file").addEventListener("change", ({ target }) => {
  const [file] = target.files;
  target.value = "";
  if (file) start(() => Recording.open(file));
});
element("key").addEventListener("change", listModels);
listModels();
