"""A failure that comes with every request is said now and then, not at every request."""

import logging

import pytest

from audiocpp.daemon.complaint import REMINDER_S, Complaint

log = logging.getLogger(__name__)


def test_it_is_said_once_and_again_after_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    now = 5.0
    complaint = Complaint(log, clock=lambda: now)
    for number in range(3):
        complaint.say("full for the %s time", number)
    now += REMINDER_S
    complaint.say("still %s", "full")
    assert [record.getMessage() for record in caplog.records] == ["full for the 0 time", "still full"]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
