"""The exceptions of the engines folder. They cross the wire as `(code, message, param)`."""

from typing import ClassVar


class EngineError(Exception):
    """Base of all errors raised here. `code` names the kind on the wire, `param` the request field at fault."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidInput(EngineError):
    """The request cannot be served as it is: a client's mistake. `param` names the field."""

    code = "invalid_request"


class UnsupportedMedia(EngineError):
    """A recognised audio container or codec that cannot be decoded here."""

    code = "unsupported_media"


class TooLarge(EngineError):
    """Input longer or larger than a stated limit."""

    code = "too_large"


class LoadError(EngineError):
    """A model's files are missing, damaged or refused by the runtime."""

    code = "load_failed"


class MissingDependency(LoadError):
    """A library that the model needs is not installed. The message ends with the command that adds it."""

    code = "missing_dependency"


class RunCancelled(EngineError):
    """The run was cancelled, or its graph was terminated."""

    code = "cancelled"


class OutOfMemory(EngineError):
    """The run or the load needed more memory than it may have."""

    code = "insufficient_memory"


class SpecError(EngineError):
    """A model contract in `model_specs` is not valid."""

    code = "invalid_spec"
