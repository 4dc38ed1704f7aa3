"""Who is at the other end of a Unix socket, as the kernel says. Linux only; knows nothing of HTTP."""

import logging
import socket
import struct
from typing import Protocol

import msgspec

logger = logging.getLogger(__name__)

SO_PEERGROUPS = 59
"""include/uapi/asm-generic/socket.h, Linux 4.13; absent from the socket module."""

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_GROUPS_BYTES = 1024  # the most that getsockopt hands out: 256 groups
_GID = struct.Struct("I")


class PeerCredentials(msgspec.Struct, frozen=True):
    """Identity of the peer at the time it connected. `groups` holds the supplementary group ids."""

    uid: int
    gid: int
    pid: int
    groups: tuple[int, ...] = ()

    def is_member(self, gid: int) -> bool:
        return gid == self.gid or gid in self.groups


class PeerSocket(Protocol):
    """The part of a connected AF_UNIX socket needed here; `socket.socket` and trio's socket have it."""

    def getsockopt(self, level: int, option: int, buflen: int, /) -> bytes: ...


def read_peer_credentials(peer: PeerSocket) -> PeerCredentials:
    """Ask the kernel (SO_PEERCRED, SO_PEERGROUPS). SO_PEERCRED alone names only the primary group.

    Of a socket that is no connected Unix socket, uid and gid are 2**32 - 1: nobody's. The pid of a process outside
    our PID namespace is 0.
    """
    pid, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return PeerCredentials(uid=uid, gid=gid, pid=pid, groups=_read_groups(peer, uid))


def _read_groups(peer: PeerSocket, uid: int) -> tuple[int, ...]:
    try:
        packed = peer.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError as error:
        logger.warning("Supplementary groups of uid %d not read (%s): only its primary group counts", uid, error)
        return ()
    return tuple(gid for (gid,) in _GID.iter_unpack(packed))
