// Runs on the audio thread: mono 16-bit samples of what the microphone hears, a twenty-fifth of a second at a time.

const PIECES_PER_SECOND = 25;

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.size = Math.round(sampleRate / PIECES_PER_SECOND);
    this.begin();
  }

  begin() {
    this.samples = new Int16Array(this.size);
    this.filled = 0;
    this.peak = 0;
  }

  process([channels]) {
    if (!channels.length) return true;
    for (let at = 0; at < channels[0].length; at++) {
      let sample = 0;
      for (const channel of channels) sample += channel[at] / channels.length;
      this.peak = Math.max(this.peak, Math.abs(sample));
      this.samples[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === this.size) {
        this.port.postMessage({ samples: this.samples, peak: this.peak }, [this.samples.buffer]);
        this.begin();
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
