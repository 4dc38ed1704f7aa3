"""Moonshine's vocabulary and its batched greedy decoding, on graphs that follow a script."""

from pathlib import Path

import numpy as np
import pytest

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import LoadError, RunCancelled
from audiocpp.engines.families.moonshine_decoding import MoonshineDecoding
from audiocpp.engines.families.moonshine_tokenizer import MoonshineVocabulary
from audiocpp.engines.graph import TensorSpec
from audiocpp.engines.utterances import Utterance

HEADS, SIZE, VOCABULARY = 2, 4, 100
START, END = 1, 2
F32 = np.dtype(np.float32)


class ScriptedEncoder:
    """One frame for every 100 samples, which holds the row's first sample: the number of its script."""

    inputs = outputs = ()

    def run(self, feeds, control, *, outputs=None):
        control.check()
        samples = feeds["input_values"]
        assert feeds["attention_mask"].shape == samples.shape
        return [np.repeat(samples[:, :1, np.newaxis], samples.shape[1] // 100, axis=1).astype(np.float32)]


class ScriptedDecoder:
    """Predicts the next token of each row's script, however the row came to its place; `rows` counts rows a step."""

    outputs = (TensorSpec("logits", F32, (None, None, VOCABULARY)),)
    inputs = tuple(
        TensorSpec(f"past_key_values.0.{kind}.{part}", F32, (None, HEADS, None, SIZE))
        for kind in ("decoder", "encoder")
        for part in ("key", "value")
    )

    def __init__(self, scripts) -> None:
        self.scripts = scripts
        self.rows: list[int] = []
        self.widths: list[int] = []
        self.masks: list[np.ndarray] = []

    def run(self, feeds, control, *, outputs=None):
        ids, past = feeds["input_ids"], feeds["past_key_values.0.decoder.key"]
        rows, width = ids.shape
        assert past.shape[0] == feeds["encoder_hidden_states"].shape[0] == rows
        assert bool(feeds["use_cache_branch"][0]) == (past.shape[2] > 0)
        self.rows.append(rows)
        self.widths.append(width)
        self.masks.append(feeds["encoder_attention_mask"])
        place = past.shape[2] + width - 1
        logits = np.zeros((rows, width, VOCABULARY), np.float32)
        for row in range(rows):
            script = self.scripts[int(feeds["encoder_hidden_states"][row, 0, 0])]
            logits[row, -1, script[place] if place < len(script) else END] = 1
        grown = np.zeros((rows, HEADS, place + 1, SIZE), np.float32)
        cross = np.zeros((rows, HEADS, 5, SIZE), np.float32)
        return [logits if name == "logits" else cross if ".encoder." in name else grown for name in outputs]

    def close(self) -> None:
        pass


def utterance(script: int, *, seconds: float = 2.0, prefix=()) -> Utterance:
    samples = np.zeros(int(seconds * 16_000), np.float32)
    samples[0] = script
    return Utterance(samples, prefix)


def decoded(scripts, *rows):
    decoder = ScriptedDecoder(scripts)
    return MoonshineDecoding(ScriptedEncoder(), decoder).decode(rows, RunControl()), decoder


def test_rows_of_a_batch_come_out_as_their_own_and_leave_it_when_they_end() -> None:
    results, decoder = decoded([[10, 11, 12, 13], [20], [30, 31]], *map(utterance, range(3)))
    assert results == [(10, 11, 12, 13), (20,), (30, 31)]
    assert decoder.rows == [3, 3, 2, 1, 1]


def test_audio_that_only_fills_a_row_up_is_masked() -> None:
    _, decoder = decoded([[10], [20]], utterance(0, seconds=1), utterance(1, seconds=2))
    assert decoder.masks[0].sum(axis=1).tolist() == [16_000, 32_000]


def test_decoding_goes_on_from_a_known_beginning_in_one_step() -> None:
    results, decoder = decoded([[10, 11, 12, 13]], utterance(0, prefix=(10, 11)))
    assert results == [(12, 13)]
    assert decoder.widths == [3, 1, 1]


def test_a_beginning_is_kept_where_the_model_would_say_otherwise() -> None:
    results, _ = decoded([[10, 11, 12, 13]], utterance(0, prefix=(50, 51, 52)))
    assert results == [(13,)]


def test_rows_with_beginnings_of_different_length_share_a_batch() -> None:
    results, decoder = decoded(
        [[10, 11, 12, 13], [20, 21, 22], [30]],
        utterance(0, prefix=(10,)),
        utterance(1, prefix=(20, 21, 22)),
        utterance(2, prefix=(30,)),
    )
    assert results == [(11, 12, 13), (), ()]
    assert decoder.widths[0] == 2


def test_a_row_has_as_many_tokens_as_its_length_allows() -> None:
    script = list(range(10, 90))
    (tokens,), _ = decoded([script], utterance(0, seconds=4))
    assert tokens == tuple(script[:26])
    (rest,), _ = decoded([script], utterance(0, seconds=4, prefix=tuple(script[:26])))
    assert rest == tuple(script[26:32])


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ([40, 41, 42] * 20, (40, 41, 42)),
        ([9, *[40] * 50], (9, 40)),
        ([40, 41, 42] * 3, (40, 41, 42) * 3),  # three times may have been said
        ([40] * 7, (40,) * 7),
    ],
)
def test_a_loop_is_stopped_and_taken_back(script: list[int], kept: tuple[int, ...]) -> None:
    (tokens,), _ = decoded([script], utterance(0, seconds=30))
    assert tokens == kept


def test_very_short_audio_is_decoded_too() -> None:
    assert decoded([[10]], utterance(0, seconds=0.01))[0] == [(10,)]


def test_a_cancelled_decode_ends() -> None:
    control = RunControl()
    control.cancel()
    with pytest.raises(RunCancelled):
        MoonshineDecoding(ScriptedEncoder(), ScriptedDecoder([[10]])).decode([utterance(0)], control)


def test_a_graph_without_cache_is_refused() -> None:
    with pytest.raises(LoadError, match="not a merged decoder"):
        MoonshineDecoding(ScriptedEncoder(), ScriptedEncoder())


def vocabulary_bytes(*pieces: bytes) -> bytes:
    def length(size: int) -> bytes:
        return bytes([size]) if size < 128 else bytes([128 + size % 128, size // 128])

    return b"".join(length(len(piece)) + piece for piece in pieces)


LONG = b"x" * 300


@pytest.fixture
def vocabulary_file(tmp_path: Path) -> Path:
    word = "\N{LOWER ONE EIGHTH BLOCK}so".encode()
    pieces = (b"<unk>", b"<s>", b"</s>", word, b"me", b"<0xC3>", b"<0xA9>", b"<<ST_7>>", b"", LONG, b".")
    path = tmp_path / "tokenizer.bin"
    path.write_bytes(vocabulary_bytes(*pieces))
    return path


def test_tokens_become_text(vocabulary_file: Path) -> None:
    vocabulary = MoonshineVocabulary(vocabulary_file)
    assert len(vocabulary) == 11
    assert vocabulary.text((1, 3, 4, 10, 2)) == " some."
    assert vocabulary.text((5, 6)) == "é"
    assert vocabulary.text((5,)) == "\N{REPLACEMENT CHARACTER}"
    assert vocabulary.text((0, 7, 8)) == ""
    assert vocabulary.text((9,)) == LONG.decode()
    assert [vocabulary.starts_word(token) for token in (3, 4, 10)] == [True, False, False]


def test_a_truncated_vocabulary_is_refused_by_name(vocabulary_file: Path) -> None:
    whole = vocabulary_file.read_bytes()
    for size in (len(whole) - 1, len(whole) - 200, 1):
        vocabulary_file.write_bytes(whole[:size])
        with pytest.raises(LoadError, match=r"tokenizer\.bin"):
            MoonshineVocabulary(vocabulary_file)


def test_a_missing_vocabulary_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"tokenizer\.bin"):
        MoonshineVocabulary(tmp_path / "tokenizer.bin")
