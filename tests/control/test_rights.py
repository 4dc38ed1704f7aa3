import pytest

from audiocpp.control.peer import PeerCredentials
from audiocpp.control.rights import AccessPolicy, Right

OWNER, READERS, WRITERS, OTHER = 900, 901, 902, 1000
POLICY = AccessPolicy(owner_uid=OWNER, reader_gid=READERS, writer_gid=WRITERS)


def peer(uid: int = OTHER, gid: int = OTHER, groups: tuple[int, ...] = ()) -> PeerCredentials:
    return PeerCredentials(uid=uid, gid=gid, pid=1, groups=groups)


@pytest.mark.parametrize(
    ("caller", "may_read", "may_write"),
    [
        (peer(uid=0), True, True),
        (peer(uid=OWNER), True, True),
        (peer(gid=WRITERS), True, True),
        (peer(groups=(5, WRITERS)), True, True),
        (peer(gid=READERS), True, False),
        (peer(groups=(READERS, 5)), True, False),
        (peer(), False, False),
        (peer(gid=0), False, False),
    ],
)
def test_who_may_do_what(caller: PeerCredentials, *, may_read: bool, may_write: bool) -> None:
    assert POLICY.allows(caller, Right.READ) is may_read
    assert POLICY.allows(caller, Right.WRITE) is may_write


def test_a_group_missing_on_this_host_admits_nobody() -> None:
    policy = AccessPolicy(owner_uid=OWNER, reader_gid=None, writer_gid=None)
    assert not policy.allows(peer(groups=(READERS, WRITERS)), Right.READ)
