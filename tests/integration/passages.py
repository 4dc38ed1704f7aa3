"""What the recordings say, and how far a transcript is from it.

Dickens, A Tale of Two Cities; Beckett, Worstward Ho. The recordings come with the `moonshine_voice` wheel.
"""

from pathlib import Path

import jiwer

PASSAGES = Path(__file__).parents[1] / "data" / "passages"
MAX_WORD_ERRORS = 0.08
_WORDS = jiwer.Compose(
    [
        jiwer.ToLowerCase(),
        jiwer.SubstituteRegexes({r"[^a-z' ]": " "}),
        jiwer.RemoveMultipleSpaces(),
        jiwer.Strip(),
        jiwer.ReduceToListOfListOfWords(),
    ]
)


def passage(name: str) -> str:
    """The published text of `two_cities` or `beckett`."""
    return (PASSAGES / f"{name}.txt").read_text(encoding="utf-8")


def word_errors(reference: str, text: str) -> float:
    """Word error rate, letters and apostrophes compared in lower case."""
    return jiwer.wer(reference, text, reference_transform=_WORDS, hypothesis_transform=_WORDS)
