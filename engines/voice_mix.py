"""The syntax of a mixed voice: names joined by `+`, each with a weight in brackets where it is not 1.

`af_heart+af_bella` is the mean of two voices, `af_heart(2)+af_bella` is nearer to the first. A single name is a mix of
one. Which names there are is not known here.
"""

import re

SYNTAX = "NAME+NAME, or NAME(WEIGHT)+NAME(WEIGHT) with weights above 0"

_MOST_VOICES = 8
_LONGEST_CHARS = 1024
_TERM = re.compile(r"\s*(?P<name>[^\s+()]+)\s*(?:\(\s*(?P<weight>\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})\s*\))?\s*")


def parse_voice_mix(text: str) -> dict[str, float]:
    """Voice name -> its share; the shares add up to 1. Raises `ValueError` that says what is wrong."""
    terms = text.split("+") if len(text) <= _LONGEST_CHARS else []
    if not 1 <= len(terms) <= _MOST_VOICES:
        raise ValueError(f"a mix has at most {_MOST_VOICES} voices")
    weights: dict[str, float] = {}
    for term in terms:
        match = _TERM.fullmatch(term)
        weight = float(match["weight"] or 1) if match else 0.0
        if match is None or weight <= 0:
            raise ValueError(f"a mix of voices is {SYNTAX}")
        weights[match["name"]] = weights.get(match["name"], 0.0) + weight
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
