"""Moonshine: English speech recognition of whole utterances, heard through Silero VAD.

Model: https://github.com/moonshine-ai/moonshine (Jeffries et al. 2024, arXiv:2410.15608), exported as an encoder and a
merged decoder. This file knows tensors and tokens; how speech becomes utterances and text becomes events is elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from audiocpp.engines.cancellation import RunControl
from audiocpp.engines.errors import InvalidInput, LoadError
from audiocpp.engines.families.moonshine_decoding import MoonshineDecoding
from audiocpp.engines.families.moonshine_tokenizer import MoonshineVocabulary
from audiocpp.engines.family import LoadContext, Run
from audiocpp.engines.graph import Graph, GraphOptions
from audiocpp.engines.languages import check_language
from audiocpp.engines.live_transcription import LiveTranscription
from audiocpp.engines.offline_transcription import OfflineTranscription
from audiocpp.engines.tasks import OptionValue, TaskRequest
from audiocpp.engines.utterances import Tokens, Utterance
from audiocpp.engines.voice_activity import FRAME_SAMPLES, VoiceNetwork, VoiceRow, VoiceState

LANGUAGES: Final = ("en",)
DEFAULT_ENDPOINT_SILENCE_MS: Final = 500

_MAX_ROWS: Final = 4
"""A decoder step over four rows costs 1.5 of one row, over eight 2.4: beyond four it is the computing that counts."""


class MoonshineAsr:
    """Family `moonshine_asr`, task `asr`. File roles: `encoder`, `decoder`, `tokenizer` and the companion's `vad`.

    Request options: `partials` (false), `vad` (`on`; `off`: everything is speech and the client finalizes),
    `endpoint_silence_ms` (500, streaming), `words` (only false: the model gives no word times). A prompt has no
    effect on this model.
    """

    name: ClassVar[str] = "moonshine_asr"

    def __init__(self, decoding: MoonshineDecoding, vocabulary: MoonshineVocabulary, network: VoiceNetwork) -> None:
        self._decoding = decoding
        self._vocabulary = vocabulary
        self._network = network

    @classmethod
    def load(cls, context: LoadContext) -> "MoonshineAsr":
        def graph(role: str) -> Graph:
            # Measured: 18 MiB less at rest and 28 less at the peak, for 0.1 s more of loading.
            return context.open_graph(context.files[role], GraphOptions(weights_in_place=False))

        vocabulary = MoonshineVocabulary(context.files["tokenizer"])
        decoding = MoonshineDecoding(graph("encoder"), graph("decoder"))
        if decoding.vocabulary_size not in (None, len(vocabulary)):
            raise LoadError(
                f"{context.files['tokenizer']}: {len(vocabulary)} tokens; the decoder has {decoding.vocabulary_size}"
            )
        return cls(decoding, vocabulary, VoiceNetwork(graph("vad")))

    def run(self, request: TaskRequest) -> Run:
        if request.task != "asr":
            raise InvalidInput(f"task {request.task!r} is not offered; moonshine_asr does asr", param="task")
        if request.audio is None:
            raise InvalidInput("asr needs audio", param="audio")
        check_language(request.language, LANGUAGES)
        options = request.options
        if options.get("words", False):
            raise InvalidInput("words: this model gives no word times; only false is accepted", param="words")
        network = self._network if _vad_wanted(options) else None
        if request.mode == "offline":
            return OfflineTranscription(self, network, request.audio).run()
        return LiveTranscription(
            self,
            network,
            request.audio,
            endpoint_silence_ms=int(options.get("endpoint_silence_ms", DEFAULT_ENDPOINT_SILENCE_MS)),
            partials=bool(options.get("partials", False)),
        ).run()

    def warm_up(self) -> None:
        control = RunControl()
        self._network.probabilities([VoiceRow(np.zeros((1, FRAME_SAMPLES), np.float32), VoiceState())], control)
        self._decoding.decode([Utterance(np.zeros(8000, np.float32))], control)

    def close(self) -> None:
        self._decoding.close()
        self._network.close()

    # UtteranceDecoder

    @property
    def max_rows(self) -> int:
        return _MAX_ROWS

    def decode(self, rows: Sequence[Utterance], control: RunControl) -> list[Tokens]:
        return self._decoding.decode(rows, control)

    def text(self, tokens: Tokens) -> str:
        return self._vocabulary.text(tokens)

    def starts_word(self, token: int) -> bool:
        return self._vocabulary.starts_word(token)


def _vad_wanted(options: Mapping[str, OptionValue]) -> bool:
    choice = options.get("vad", "on")
    if choice not in ("on", "off"):
        raise InvalidInput(f"vad is {choice!r}; on and off are accepted", param="vad")
    return choice == "on"
