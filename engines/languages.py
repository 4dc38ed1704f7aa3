"""The language of a request against those that a model knows."""

from collections.abc import Sequence

from audiocpp.engines.errors import InvalidInput


def primary_language(tag: str) -> str:
    """The primary subtag of a BCP-47 tag: `EN`, `en-US` and `en_us` are `en`."""
    return tag.strip().replace("_", "-").partition("-")[0].lower()


def check_language(tag: str, accepted: Sequence[str]) -> str:
    """The accepted language that `tag` names; the first one when `tag` is empty.

    Raises `InvalidInput` (param `language`) when it names none of them.
    """
    language = primary_language(tag) or accepted[0]
    if language not in accepted:
        raise InvalidInput(
            f"language {tag!r} is not known to this model; accepted: {', '.join(accepted)}", param="language"
        )
    return language
