"""How long a request waits for a slot."""

import math

import pytest

from audiocpp.daemon.busy import effective_busy_timeout_ms, is_overdue


@pytest.mark.parametrize(
    ("ceiling", "requested", "effective"),
    [
        (900_000, None, 900_000),
        (900_000, 60_000, 60_000),
        (900_000, 999_999, 900_000),
        (900_000, 0, 900_000),
        (0, 60_000, 60_000),
        (0, None, 0),
        (0, 0, 0),
    ],
)
def test_a_request_can_only_shorten_the_wait(ceiling: int, requested: int | None, effective: int) -> None:
    assert effective_busy_timeout_ms(ceiling, requested) == effective


def test_a_holder_is_overdue_just_above_the_limit() -> None:
    assert not is_overdue(500, 500)
    assert is_overdue(math.nextafter(500, 501), 500)


@pytest.mark.parametrize("timeout", [0, -1])
def test_nobody_is_overdue_without_a_limit(timeout: int) -> None:
    assert not is_overdue(1e12, timeout)
