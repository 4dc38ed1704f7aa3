"""Multipart bodies, read as they come: fields and small files in memory, larger files in the spool."""

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from quart import request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData, State

from audiocpp.daemon.backend import backend
from audiocpp.daemon.errors import InvalidRequest
from audiocpp.daemon.http.body import body_pieces
from audiocpp.daemon.http.body_log import log_form
from audiocpp.daemon.http.connection import served_request
from audiocpp.daemon.spool import SpooledFile

MAX_PARTS = 256
MEMORY_BYTES = 1 << 20
"""The files of a form stay in memory up to this size together; its fields may have no more."""

WRITE_BYTES = 512 << 10
"""What is gathered for a write to the disk, which takes a thread."""

MAX_LOOSE_BYTES = 64 << 10
"""What may stand before the first boundary, in the headers of a part, or after the last boundary."""

_LOOSE = {
    State.PREAMBLE: f"the boundary does not occur in its first {MAX_LOOSE_BYTES >> 10} KiB",
    State.PART: f"the headers of a part have more than {MAX_LOOSE_BYTES >> 10} KiB",
    State.EPILOGUE: f"it goes on for more than {MAX_LOOSE_BYTES >> 10} KiB after its closing boundary",
}


@dataclass(slots=True)
class Part:
    """One part. Its content is `data`, or the file at `spooled.path` once it is too large for memory."""

    name: str
    filename: str = ""
    data: bytearray = field(default_factory=bytearray)
    spooled: SpooledFile | None = None

    @property
    def source(self) -> bytes | Path:
        return bytes(self.data) if self.spooled is None else self.spooled.path

    @property
    def empty(self) -> bool:
        return self.spooled is None and not self.data

    @property
    def size_bytes(self) -> int:
        return len(self.data) if self.spooled is None else self.spooled.size_bytes


class Form:
    """The parts of a body, in order."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def last(self, name: str) -> Part | None:
        """The last part of this name: where one is repeated, the last counts."""
        return next((part for part in reversed(self.parts) if part.name == name), None)

    def text(self, name: str) -> str | None:
        """The content of a part as text; None when it is absent. Raises `InvalidRequest` if it is not UTF-8."""
        part = self.last(name)
        return None if part is None else _text(part)

    def texts(self, name: str) -> list[str]:
        return [_text(part) for part in self.parts if part.name == name]


def is_multipart() -> bool:
    """Whether the request says that its body is multipart/form-data."""
    return (request.mimetype or "") == "multipart/form-data"


async def read_form(files: Collection[str], *, repeated: bool = False) -> Form:
    """Reads the whole body. Parts named in `files` are files: they may be large, and exist until the reply is complete.
    Of those of one name only the last is kept, unless `repeated`. All others are fields.

    Raises `InvalidRequest` for a body that is not valid multipart.
    """
    boundary = request.mimetype_params.get("boundary")
    if not boundary:
        raise InvalidRequest("multipart/form-data needs a boundary parameter in Content-Type", param="Content-Type")
    decoder = MultipartDecoder(boundary.encode("latin-1", "replace"), max_parts=MAX_PARTS)
    reader = _Reader(decoder, files, repeated=repeated)
    async with aclosing(body_pieces()) as pieces:
        async for piece in pieces:
            await reader.feed(piece)
    await reader.feed(None)
    if backend().services.config.log_request_body:
        log_form((part.name, part.size_bytes, _field_text(part, files)) for part in reader.form.parts)
    return reader.form


class _Reader:
    def __init__(self, decoder: MultipartDecoder, files: Collection[str], *, repeated: bool) -> None:
        self.form = Form()
        self._decoder = decoder
        self._files = files
        self._repeated = repeated
        self._field_bytes = 0

    async def feed(self, piece: bytes | None) -> None:
        """Takes the next piece of the body; None is its end."""
        try:
            self._decoder.receive_data(piece)
            while not isinstance(event := self._decoder.next_event(), NeedData | Epilogue):
                await self._take(event)
        except RequestEntityTooLarge as error:
            raise InvalidRequest(f"the multipart body has more than {MAX_PARTS} parts") from error
        except (ValueError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"the multipart body is not valid: {_reason(error)}") from error
        if len(self._decoder.buffer) > MAX_LOOSE_BYTES and (reason := _LOOSE.get(self._decoder.state)):
            raise InvalidRequest(f"the multipart body is not valid: {reason}")

    async def _take(self, event: object) -> None:
        match event:
            case File(name=name, filename=filename):
                self._begin(Part(name or "", filename or ""))
            case Field(name=name):
                self._begin(Part(name or ""))
            case Data(data=data, more_data=more):
                part = self.form.parts[-1]
                part.data += data
                if part.name in self._files:
                    await self._store(part, more=more)
                else:
                    self._count_field(part, len(data))

    def _begin(self, part: Part) -> None:
        if part.name in self._files and not self._repeated and (earlier := self.form.last(part.name)):
            self.form.parts.remove(earlier)
            if earlier.spooled is not None:
                earlier.spooled.close()
        self.form.parts.append(part)

    def _count_field(self, part: Part, size_bytes: int) -> None:
        self._field_bytes += size_bytes
        if self._field_bytes > MEMORY_BYTES:
            raise InvalidRequest(
                f"{part.name}: the fields of a form may have {MEMORY_BYTES} bytes together", param=part.name
            )

    async def _store(self, part: Part, *, more: bool) -> None:
        limit = MEMORY_BYTES - self._held_bytes(part) if part.spooled is None else WRITE_BYTES if more else 0
        if len(part.data) <= limit:
            return
        if part.spooled is None:
            part.spooled = await backend().spool.create()
            served_request().resources.callback(part.spooled.close)
        await part.spooled.write(bytes(part.data))
        part.data.clear()

    def _held_bytes(self, part: Part) -> int:
        """What the other files hold in memory."""
        return sum(len(other.data) for other in self.form.parts if other.name in self._files and other is not part)


def _reason(error: ValueError) -> str:
    return "it ends before the closing boundary" if "cannot parse beyond" in str(error) else str(error)


def _field_text(part: Part, files: Collection[str]) -> str | None:
    return None if part.name in files else part.data.decode(errors="replace")


def _text(part: Part) -> str:
    try:
        return part.data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{part.name} is not UTF-8 text", param=part.name) from error
