import os
import socket
import subprocess
import sys
import textwrap

import pytest

from audiocpp.control.peer import read_peer_credentials

NOBODY_UID, SOME_GID, OTHER_GID = 65534, 54321, 54322


def test_credentials_are_those_of_the_process_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        peer = read_peer_credentials(ours)
    assert (peer.uid, peer.gid, peer.pid) == (os.getuid(), os.getgid(), os.getpid())
    assert set(peer.groups) == set(os.getgroups())


def test_a_tcp_peer_is_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            assert read_peer_credentials(accepted).uid == 2**32 - 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_supplementary_groups_of_another_user_are_read() -> None:
    address = f"\0audiocpp-test-{os.getpid()}"  # in the abstract namespace, where no folder's permissions count
    script = f"""
        import os, socket
        os.setgroups([{SOME_GID}]); os.setgid({OTHER_GID}); os.setuid({NOBODY_UID})
        s = socket.socket(socket.AF_UNIX); s.connect({address!r}); s.recv(1)
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        server.settimeout(10)
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)]) as child:
            accepted, _ = server.accept()
            with accepted:
                peer = read_peer_credentials(accepted)
    assert (peer.uid, peer.gid, peer.pid, peer.groups) == (NOBODY_UID, OTHER_GID, child.pid, (SOME_GID,))
