"""Worker processes seen from the control process: what happens when there can be none."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from audiocpp.daemon.codecs import Codecs
from audiocpp.daemon.errors import InvalidRequest, ModelFailed
from audiocpp.daemon.worker_entry import CODEC_DATA_BYTES


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_decoder_has_a_limit_of_memory(nursery: trio.Nursery) -> None:
    codecs = Codecs()
    with trio.fail_after(20):
        await nursery.start(codecs.serve)
        with pytest.raises(InvalidRequest):
            async with codecs.decode(b"RIFF", sample_rate=16_000, max_seconds=1.0):
                pass
        assert codecs.pid is not None
        assert resource.prlimit(codecs.pid, resource.RLIMIT_DATA) == (CODEC_DATA_BYTES, CODEC_DATA_BYTES)
        nursery.cancel_scope.cancel()


async def test_a_decoder_that_cannot_be_started_is_said(nursery: trio.Nursery) -> None:
    codecs = Codecs()
    with trio.fail_after(5):
        await nursery.start(codecs.serve)
        with no_descriptors_left(), pytest.raises(ModelFailed, match="no worker process could be started"):
            async with codecs.decode(b"RIFF", sample_rate=16_000, max_seconds=1.0):
                pass
