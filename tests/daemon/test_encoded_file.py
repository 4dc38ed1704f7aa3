"""Files of speech: the same in memory and on disk, and never much in memory."""

import base64
from pathlib import Path

import pytest
import trio

from audiocpp.daemon.errors import BodyTooLarge
from audiocpp.daemon.http.encoded_file import MEMORY_BYTES, READ_BYTES, WRITE_BYTES, EncodedFile
from audiocpp.daemon.spool import Spool

SIZES = [0, 1, READ_BYTES, READ_BYTES + 1, MEMORY_BYTES - 1, MEMORY_BYTES, MEMORY_BYTES + WRITE_BYTES + 7]


async def made(folder: Path, data: bytes, *, step: int) -> tuple[EncodedFile, Spool]:
    spool = Spool(folder, max_bytes=64 << 20)
    file = EncodedFile(spool)
    for start in range(0, len(data), step):
        await file.append(data[start : start + step])
    return file, spool


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.parametrize("size", SIZES)
async def test_what_was_appended_is_read_and_its_base64_too(tmp_path: Path, size: int) -> None:
    data = bytes(index * 7 % 251 for index in range(size))
    with trio.fail_after(10):
        file, spool = await made(tmp_path, data, step=100_003)
        assert file.size_bytes == size
        assert (spool.used_bytes > 0) == (size >= MEMORY_BYTES)
        for _ in range(2):
            assert b"".join([piece async for piece in file.pieces()]) == data
        text = b"".join([piece async for piece in file.base64_pieces()])
        assert text == base64.b64encode(data)
        assert len(text) == file.base64_bytes
        file.close()
        file.close()
    assert spool.used_bytes == 0
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("size", [100, MEMORY_BYTES + 5, MEMORY_BYTES + WRITE_BYTES + 5])
async def test_the_header_is_replaced_wherever_the_file_is(tmp_path: Path, size: int) -> None:
    with trio.fail_after(10):
        file, _ = await made(tmp_path, bytes(size), step=100_000)
        await file.replace(0, b"head")
        await file.replace(size - 2, b"xy")
        await file.append(b"!")
        assert b"".join([piece async for piece in file.pieces()]) == b"head" + bytes(size - 6) + b"xy!"
        file.close()


async def test_a_file_beyond_the_bound_is_refused_by_what_it_is(tmp_path: Path) -> None:
    file = EncodedFile(Spool(tmp_path, max_bytes=MEMORY_BYTES))
    with trio.fail_after(10):
        await file.append(bytes(MEMORY_BYTES))
        with pytest.raises(BodyTooLarge, match=r"^the speech may take 4194304 bytes of disk space"):
            await file.append(bytes(WRITE_BYTES))
        file.close()
