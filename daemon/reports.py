"""What a load or an unload has done."""

import msgspec


class LoadReport(msgspec.Struct, frozen=True):
    """`changed` is False when the model was resident already."""

    id: str
    changed: bool
    seconds: float
    resident_bytes: int


class UnloadReport(msgspec.Struct, frozen=True):
    """Model labels, and the private memory that ended with their workers, measured."""

    unloaded: list[str]
    not_resident: list[str]
    released_bytes: int
