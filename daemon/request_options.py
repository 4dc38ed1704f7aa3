"""The options of a run, from all the places where a client or the configuration can set them."""

from collections.abc import Mapping
from types import MappingProxyType

from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.option_text import option_text
from audiocpp.daemon.registry import ModelEntry
from audiocpp.engines.errors import InvalidInput
from audiocpp.engines.options import check_options
from audiocpp.engines.tasks import OptionValue

COPIED_SCALARS = (
    "seed",
    "temperature",
    "top_k",
    "top_p",
    "max_tokens",
    "max_steps",
    "repetition_penalty",
    "guidance_scale",
    "num_inference_steps",
)
"""Top-level fields of a speech request that set the option of the same name."""

SPEED_OPTIONS = ("speed", "speaking_rate")

INSTRUCTIONS = frozenset({"instruct", "instruction"})
"""Two spellings of one thing: either of a request replaces both of the configuration."""


def request_options(
    entry: ModelEntry,
    options: Mapping[str, object] | None,
    *,
    preset: Mapping[str, str] = MappingProxyType({}),
    **top_level: object,
) -> dict[str, OptionValue]:
    """The entry's defaults, over them those of a voice `preset`, over them `options`, over them the top-level fields
    that are not None; all checked. They are texts until they are read as what the family declares.

    Raises `InvalidRequest` with the option as `param`; an unknown one lists those that the family takes.
    """
    given = _texts(options or {}) | _texts(top_level)
    configured: dict[str, object] = {**entry.default_request_options, **preset}
    if INSTRUCTIONS & given.keys():
        configured = {key: value for key, value in configured.items() if key not in INSTRUCTIONS}
    try:
        return check_options(entry.spec.options.request, {**configured, **given})
    except InvalidInput as error:
        at = f"options.{error.param}" if options and error.param in options else error.param
        raise InvalidRequest(f"model {entry.id!r}: {error.message}", param=at) from error


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    """Null counts as absent."""
    return {key: option_text(value) for key, value in values.items() if value is not None}


def speed_option(entry: ModelEntry, speed: float | None) -> dict[str, float]:
    """`speed` under the name that the family gives it. The neutral 1.0 is dropped where there is no such option."""
    if speed is None:
        return {}
    if not 0 < speed < float("inf"):
        raise InvalidRequest(f"speed: {speed!r} is not a positive number", param="speed")
    for name in SPEED_OPTIONS:
        if entry.spec.declares(name):
            return {name: round(speed, 6)}
    if speed == 1.0:
        return {}
    raise InvalidRequest(f"speed is not supported by this model ({entry.id!r}); only 1.0 is accepted", param="speed")
