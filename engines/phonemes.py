"""Text to the phonemes of espeak-ng, in the International Phonetic Alphabet.

espeak-ng is called through `ctypes`, by way of the library and data that `espeakng-loader` carries. `phonemizer-fork`
would do the same call: it brings twenty packages (rdflib, babel, csvw, ...), 0.6 s of imports and 40 MB per worker, and
takes punctuation out and puts it back by its own rules. Here a clause is phonemized at a time and its mark follows it,
which is what voices trained with Piper expect.

espeak-ng is one global state in a process: one voice at a time, one caller at a time. Nothing here knows of voices of
models or of their symbols.
"""

import ctypes
import importlib
import re
import threading
from collections.abc import Container, Iterator
from functools import cache
from typing import Protocol

from audiocpp.engines.errors import LoadError, MissingDependency
from audiocpp.engines.text.sentences import cut_to_length

INSTALL_COMMAND = "pip install 'audiocppd[tts]'"

# espeak-ng's speak_lib.h, version 1.52.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_PHONEMES_IPA = 0x02

_LOADING = threading.Lock()

_CLOSERS = "\"'”’»)\\]"
_MARK = re.compile(rf"(?P<mark>[.,;:!?…])[.,;:!?…]*[{_CLOSERS}]*(?=\s|$)|\s?[—–]\s?|\s-{{1,3}}\s|[{_CLOSERS}]?\s?[(\[]")
_AS_PIPER = {"…": "."}
_LANGUAGE_SWITCH = re.compile(r"\([a-z-]+\)")


class Phonemizer(Protocol):
    """What gives the phonemes of a text, with the marks that structure it."""

    def phonemize(self, text: str) -> str: ...


def known_parts(phonemes: str, known: Container[str], most: int) -> Iterator[str]:
    """Yields the symbols of `phonemes` that are `known`, at most `most` at a time; no part without a sound.

    A few characters may have many phonemes (figures, signs of another script), so this is what bounds a run of a graph.
    A part ends at a clause, else a word, else anywhere.
    """
    for part in cut_to_length("".join(symbol for symbol in phonemes if symbol in known), most):
        if any(map(str.isalpha, part)):
            yield part


class EspeakPhonemizer:
    """Phonemizes with one espeak-ng voice, such as `en-us`. Safe to share between threads.

    `loader` is the module that knows where the library and its data are.

    Raises:
        MissingDependency: `espeakng-loader` is not installed.
        LoadError: espeak-ng does not have the voice.
    """

    def __init__(self, voice: str, *, loader: str = "espeakng_loader") -> None:
        self._voice = voice
        with _LOADING:
            self._espeak = _espeak(loader)
        self._espeak.check_voice(voice)

    def phonemize(self, text: str) -> str:
        """IPA of `text`, each clause followed by its mark (one of `.,;:!?`), words and clauses apart by a space.

        Text without anything that espeak-ng can pronounce gives an empty string.
        """
        spoken = ""
        for clause, mark in _clauses(text):
            phonemes = self._espeak.phonemize(clause, self._voice)
            if phonemes:
                spoken += f"{' ' if spoken else ''}{phonemes}{mark}"
        return spoken


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of a clause and the mark that closes it; dashes and brackets count as commas."""
    start = 0
    for match in _MARK.finditer(text):
        mark = match["mark"] or ","
        yield text[start : match.start()], _AS_PIPER.get(mark, mark)
        start = match.end()
    yield text[start:], ""


class _Espeak:
    """The library, initialized. All calls are serialized by one lock."""

    def __init__(self, library_path: str, data_path: str) -> None:
        self._lock = threading.Lock()
        self._voice = ""
        library = ctypes.CDLL(library_path)
        library.espeak_Initialize.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
        library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
        library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
        library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._library = library
        if library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path.encode(), _INITIALIZE_DONT_EXIT) < 0:
            raise LoadError(f"espeak-ng cannot read its data in {data_path}")

    def check_voice(self, voice: str) -> None:
        with self._lock:
            self._select(voice)

    def phonemize(self, clause: str, voice: str) -> str:
        buffer = ctypes.create_string_buffer(clause.encode())
        position = ctypes.c_void_p(ctypes.addressof(buffer))
        parts = []
        with self._lock:
            self._select(voice)
            while position.value is not None:  # one call takes a limited number of words
                part = self._library.espeak_TextToPhonemes(ctypes.byref(position), _CHARS_UTF8, _PHONEMES_IPA)
                parts.append((part or b"").decode().strip())
        return _LANGUAGE_SWITCH.sub("", " ".join(filter(None, parts)))

    def _select(self, voice: str) -> None:
        if voice == self._voice:
            return
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            self._voice = ""
            raise LoadError(f"espeak-ng has no voice {voice!r}")
        self._voice = voice


@cache
def _espeak(loader: str) -> _Espeak:
    try:
        paths = importlib.import_module(loader)
    except ImportError as error:
        raise MissingDependency(f"phonemes need espeak-ng, which is not installed: {INSTALL_COMMAND}") from error
    return _Espeak(paths.get_library_path(), paths.get_data_path())
