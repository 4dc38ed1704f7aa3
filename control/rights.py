"""Which peer may read and which may change. Knows groups and ids, not HTTP."""

import grp
import os
from enum import Enum

import msgspec

from audiocpp.control.peer import PeerCredentials
from audiocpp.control.protocol import READER_GROUP, WRITER_GROUP


class Right(Enum):
    READ = "read"
    WRITE = "write"


class AccessPolicy(msgspec.Struct, frozen=True):
    """Root, `owner_uid` and the writer group may change; the reader group may read, as may those.

    A group that does not exist on this host is None and admits nobody.
    """

    owner_uid: int
    reader_gid: int | None
    writer_gid: int | None

    @classmethod
    def of_this_host(cls) -> "AccessPolicy":
        """The owner is the user this process runs as. The groups are looked up now and not again."""
        return cls(owner_uid=os.getuid(), reader_gid=_gid_of(READER_GROUP), writer_gid=_gid_of(WRITER_GROUP))

    def allows(self, peer: PeerCredentials, right: Right) -> bool:
        if peer.uid in (0, self.owner_uid) or _is_member(peer, self.writer_gid):
            return True
        return right is Right.READ and _is_member(peer, self.reader_gid)


def required_group(right: Right) -> str:
    """The group to join for `right`, as the refusal names it."""
    return READER_GROUP if right is Right.READ else WRITER_GROUP


def _is_member(peer: PeerCredentials, gid: int | None) -> bool:
    return gid is not None and peer.is_member(gid)


def _gid_of(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None
