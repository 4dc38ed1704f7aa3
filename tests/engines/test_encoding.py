"""Encoded files: what they decode to, what leaves when, and what their headers say."""

import io
import struct
import wave
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile
import soxr

from audiocpp.daemon.http.speech_request import CONTENT_TYPES
from audiocpp.engines.codec import Codec
from audiocpp.engines.encoding import FORMATS, open_encoder, to_pcm16
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.family import Data, LoadContext
from audiocpp.engines.inline import run_inline
from audiocpp.engines.sndfile_source import SequentialFile
from audiocpp.engines.tasks import AudioFormat, EncodedData, TaskRequest

CODEC = Codec.load(LoadContext(files={}, open_graph=lambda path, options: pytest.fail("the codec has no graphs")))
RATE = 24000

LEAST_SNR_DB = {"wav": 70.0, "flac": 70.0, "mp3": 20.0, "opus": 10.0}
"""A 16-bit sine at half scale has 92 dB; `chord` is 20 dB below that on average."""


def chord(seconds: float, *, rate: int = RATE, channels: int = 1) -> np.ndarray:
    """Float32 (n, channels), each channel a chord of its own, rising and falling."""
    times = np.arange(int(seconds * rate)) / rate
    swell = 0.5 * np.sin(np.pi * times / seconds)
    notes = [[220.0, 550.0, 1210.0], [330.0, 880.0, 1540.0]]
    made = [
        swell * np.mean([np.sin(2 * np.pi * hz * times) for hz in notes[channel]], axis=0)
        for channel in range(channels)
    ]
    return np.stack(made, axis=1).astype(np.float32)


def pieces(
    fmt: str, samples: np.ndarray, *, rate: int = RATE, streamed: bool = False, cut: int = 5001
) -> Iterator[bytes]:
    """The encoded pieces of float32 (n, channels), pushed in portions of `cut` bytes; those of a whole file corrected,
    as one.
    """
    audio = AudioFormat(sample_rate=rate, channels=samples.shape[1])
    request = TaskRequest(task="encode", audio=audio, options={"format": fmt, "streamed": streamed})
    pcm = samples.astype("<f4").tobytes()
    inputs = [Data(pcm[start : start + cut]) for start in range(0, len(pcm), cut)]
    file = bytearray()
    for event in run_inline(CODEC.run(request), inputs):
        assert isinstance(event, EncodedData)
        if streamed:
            assert event.at is None
            yield event.data
        else:
            at = len(file) if event.at is None else event.at
            file[at : at + len(event.data)] = event.data
    if not streamed:
        yield bytes(file)


def encode(fmt: str, samples: np.ndarray, *, rate: int = RATE, streamed: bool = False) -> bytes:
    return b"".join(pieces(fmt, samples, rate=rate, streamed=streamed))


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    """Read block by block: a streamed file does not say how long it is."""
    with SequentialFile(io.BytesIO(data)) as file:
        blocks = [file.read(file.samplerate, dtype="float32", always_2d=True)]
        while len(blocks[-1]):
            blocks.append(file.read(file.samplerate, dtype="float32", always_2d=True))
        return np.concatenate(blocks), file.samplerate


def snr_db(samples: np.ndarray, encoded: np.ndarray) -> float:
    """Of `encoded` against `samples`, at the shift and the level that fit best: coders delay and scale a little."""
    n = len(samples)
    spectrum = np.fft.rfft(encoded[:, 0], 2 * n) * np.fft.rfft(samples[:, 0], 2 * n).conj()
    shift = int(np.argmax(np.fft.irfft(spectrum)[:4000]))
    heard = encoded[shift : shift + n]
    meant = samples[: len(heard)]
    heard = heard * (meant * heard).sum() / (heard**2).sum()
    return float(10 * np.log10((meant**2).sum() / ((heard - meant) ** 2).sum()))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fmt", LEAST_SNR_DB)
def test_what_is_decoded_is_close_to_what_was_encoded(fmt: str, streamed: bool, channels: int) -> None:
    samples = chord(2.0, channels=channels)
    heard, rate = decoded(encode(fmt, samples, streamed=streamed))
    assert rate == RATE
    assert heard.shape[1] == channels
    assert snr_db(samples, heard) > LEAST_SNR_DB[fmt]


@pytest.mark.parametrize("fmt", ["wav", "flac", "mp3", "opus"])
def test_a_whole_file_knows_its_exact_length(fmt: str) -> None:
    samples = chord(1.7)
    info = soundfile.info(io.BytesIO(encode(fmt, samples)))
    assert info.frames == len(samples)


@pytest.mark.parametrize(
    ("fmt", "rate", "made"),
    [
        ("opus", 22050, 24000),
        ("opus", 24000, 24000),
        ("opus", 44100, 48000),
        ("opus", 96000, 48000),
        ("opus", 11025, 12000),
        ("mp3", 22050, 22050),
        ("mp3", 10000, 11025),
        ("mp3", 96000, 48000),
        ("flac", 22050, 22050),
        ("wav", 96000, 96000),
    ],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_rates_that_a_format_cannot_have_are_resampled(fmt: str, rate: int, made: int, streamed: bool) -> None:
    samples = chord(1.0, rate=rate)
    heard, heard_rate = decoded(encode(fmt, samples, rate=rate, streamed=streamed))
    assert heard_rate == made
    assert snr_db(soxr.resample(samples, rate, made), heard) > LEAST_SNR_DB[fmt]


@pytest.mark.parametrize("fmt", FORMATS)
def test_streamed_bytes_leave_before_the_end_and_grow_with_the_audio(fmt: str) -> None:
    audio = AudioFormat(sample_rate=RATE)
    encoder = open_encoder(fmt, audio, streamed=True)
    sent = [len(encoder.push(second)) for second in np.split(chord(8.0), 8)]
    assert sum(sent[:4]) > 0.3 * sum(sent)
    assert sum(sent[:3]) > 0
    encoder.close()


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_whole_file_leaves_as_it_is_made_and_is_corrected_by_little(fmt: str) -> None:
    encoder = open_encoder(fmt, AudioFormat(sample_rate=RATE), streamed=False)
    sent = [len(encoder.push(chord(10.0))) for _ in range(6)]
    assert sent[-1] > sum(sent) / 10
    encoder.finish()
    assert sum(len(data) for _, data in encoder.corrections) < 3000


@pytest.mark.parametrize(("streamed", "longest_s"), [(True, 0.2), (False, 1.0)])
def test_opus_leaves_a_fifth_of_a_second_at_a_time_when_it_is_streamed(streamed: bool, longest_s: float) -> None:
    encoder = open_encoder("opus", AudioFormat(sample_rate=RATE), streamed=streamed)
    step_s = 0.05
    steps = [bool(encoder.push(part)) for part in np.split(chord(4.0), 80)]
    encoder.close()
    left = [step for step, sent in enumerate(steps) if sent]
    assert max(np.diff(left)) * step_s == pytest.approx(longest_s)


def test_a_whole_wav_has_the_44_byte_header_and_exact_sizes() -> None:
    samples = chord(0.5)
    data = encode("wav", samples, rate=22050)
    assert data[:4] == b"RIFF"
    assert struct.unpack_from("<I", data, 4)[0] == len(data) - 8
    assert len(data) == 44 + 2 * len(samples)
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 22050)
        assert file.getnframes() == len(samples)


def test_a_streamed_wav_is_one_header_of_unknown_sizes_and_then_pcm_only() -> None:
    samples = chord(0.5)
    made = list(pieces("wav", samples, streamed=True))
    data = b"".join(made)
    assert len(made) > 3
    assert [struct.unpack_from("<I", data, offset)[0] for offset in (4, 40)] == [0xFFFFFFFF] * 2
    assert data[44:] == encode("pcm", samples)
    assert data[8:40] == encode("wav", samples)[8:40]


def test_pcm_is_the_samples_of_the_wav_without_its_header() -> None:
    samples = chord(0.5, channels=2)
    assert encode("pcm", samples) == encode("wav", samples)[44:]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_flac_loses_less_than_a_16_bit_step(streamed: bool) -> None:
    samples = chord(1.0)
    heard, _ = decoded(encode("flac", samples, streamed=streamed))
    assert np.abs(heard - samples).max() <= 1.01 / 32767


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_split_of_the_input_does_not_matter(fmt: str, streamed: bool) -> None:
    samples = chord(0.4, channels=2)
    made = {cut: b"".join(pieces(fmt, samples, streamed=streamed, cut=cut)) for cut in (997, 100_000)}
    if fmt == "opus":  # each file has a serial number of its own
        heard = [decoded(data)[0] for data in made.values()]
        np.testing.assert_array_equal(heard[0], heard[1])
    else:
        assert made[997] == made[100_000]


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_no_audio_at_all_is_a_file_without_samples(fmt: str, streamed: bool) -> None:
    data = encode(fmt, np.zeros((0, 1), np.float32), streamed=streamed)
    assert len(data) == 44 if fmt == "wav" else len(data) < 2000


def test_samples_are_clamped_scaled_and_rounded() -> None:
    pcm = to_pcm16(np.array([-2, -1, 0, 0.5, 1, 2], np.float32))
    np.testing.assert_array_equal(np.frombuffer(pcm, "<i2"), [-32767, -32767, 0, 16384, 32767, 32767])


@pytest.mark.parametrize("fmt", ["mp3", "flac", "opus"])
def test_what_is_too_loud_is_clamped(fmt: str) -> None:
    heard, _ = decoded(encode(fmt, 8 * chord(1.0)))
    clamped, _ = decoded(encode(fmt, np.clip(8 * chord(1.0), -1, 1)))
    assert np.abs(heard - clamped).mean() < 0.01


@pytest.mark.parametrize("name", ["wma", "", "WAV"])
def test_an_unknown_format_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidInput, match="wav, pcm, mp3, flac, opus") as caught:
        encode(name, chord(0.1))
    assert caught.value.param == "response_format"


def test_more_channels_than_a_format_has_are_refused() -> None:
    with pytest.raises(InvalidInput, match="mp3 cannot have 5 channels at 24000 Hz"):
        open_encoder("mp3", AudioFormat(sample_rate=RATE, channels=5), streamed=False)


def test_http_offers_what_is_made() -> None:
    assert set(CONTENT_TYPES) == set(FORMATS)
