"""WebSocket /v1/audio/transcriptions/live: binary frames are PCM, text frames control, events come back as text."""

from functools import partial
from typing import cast

import trio
from quart import current_app, websocket

from audiocpp.daemon.backend import backend
from audiocpp.daemon.live.close_codes import POLICY
from audiocpp.daemon.live.hosting import Claim, HostedSession, LiveSessions
from audiocpp.daemon.live.messages import Send
from audiocpp.daemon.live.parameters import live_parameters, resume_offset
from audiocpp.daemon.live.socket import accept, limit_writes, serve_socket, was_closed

SESSIONS = "audiocpp.live"
"""The app's extension that holds its sessions."""


async def live_transcription() -> None:
    """Live transcription.

    The slot is taken and the model loaded before the handshake is answered, so that refusals have a status.
    """
    claim = Claim()
    scope: trio.CancelScope | None = None
    try:
        first = await _claim(claim)
        assert claim.hosted is not None
        with claim.hosted.connected() as scope:
            await accept()
            limit_writes(claim.hosted.send_timeout_ms, claim.hosted.abort)
            await serve_socket(claim.hosted.driver, first=first())
        if scope.cancelled_caught:
            await websocket.close(POLICY, "another connection goes on with the session")
    finally:
        if claim.hosted is not None:
            claim.hosted.leave(scope, goodbye=was_closed())


async def _claim(claim: Claim) -> "_First":
    """Gets a new session, or the one that the client wants to go on with. Returns what makes its first event."""
    sessions = cast("LiveSessions", current_app.extensions[SESSIONS])
    if session_id := websocket.args.get("session_id"):
        offset = resume_offset(websocket.args)
        claim.hosted = sessions.find(session_id)
        return partial(HostedSession.resumed, claim.hosted, offset)
    parameters = live_parameters(websocket.args, backend().services.registry)
    state = websocket.scope["state"]
    await state["background"].start(sessions.host, parameters, backend(), state["stopping"], claim)
    return partial(HostedSession.created, cast("HostedSession", claim.hosted))


_First = partial[Send]
