"""A live session over an accepted WebSocket: what comes to its driver, what is in its outbox to the client."""

import json
from collections.abc import Callable
from typing import cast

import trio
from quart import websocket

from audiocpp.daemon.live.driver import SessionDriver
from audiocpp.daemon.live.messages import Audio, Close, Control, Send
from audiocpp.daemon.live.outbox import Outbox
from audiocpp.daemon.serving.pieces import Piece
from audiocpp.daemon.serving.protocol import CLOSE_CODE

GOODBYE_S = 2.0
"""How long the client may take to answer our close."""

REASON_BYTES = 123
"""What fits into a close frame."""

KEY_SUBPROTOCOL_COMPANION = "realtime"
"""Browsers that send a key as a subprotocol offer this one too, and need it accepted."""


async def accept() -> None:
    offered = websocket.requested_subprotocols
    await websocket.accept(subprotocol=KEY_SUBPROTOCOL_COMPANION if KEY_SUBPROTOCOL_COMPANION in offered else None)


def limit_writes(timeout_ms: int, dropped: Callable[[], None] = lambda: None) -> None:
    """A client that takes nothing for so long is dropped; 0: never."""
    websocket.scope["state"]["limit_writes"](timeout_ms / 1e3 or float("inf"), dropped)


def was_closed() -> bool:
    """Whether the client has closed, be it of its own accord or as the answer to ours, and was not just lost."""
    return CLOSE_CODE in websocket.scope["state"]


async def serve_socket(driver: SessionDriver, *, first: Send) -> None:
    """Returns when the session is over, its close has been sent, and the client has had time to answer it.

    One task reads the socket and never does anything else, so that pings, control messages and the close are seen
    however busy the model is. A client that leaves cancels all of it.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_receive, driver)
        await send(first)
        await _send_all(driver.outbox)
        await trio.sleep(GOODBYE_S)
        nursery.cancel_scope.cancel()


async def _receive(driver: SessionDriver) -> None:
    text = ""
    while True:
        piece = cast("Piece", await websocket.receive())
        if isinstance(piece.data, bytes):
            driver.hear(Audio(piece.data, piece.last))
        else:
            text += piece.data
            if piece.last:
                driver.hear(Control(text))
                text = ""
        await driver.room()


async def _send_all(outbox: Outbox) -> None:
    while True:
        effect = await outbox.next()
        if isinstance(effect, Close):
            await close(effect)
            return
        await send(effect)
        outbox.sent()


async def send(effect: Send) -> None:
    await websocket.send(json.dumps(effect.event, ensure_ascii=False))


async def close(effect: Close) -> None:
    reason = effect.reason.encode()[:REASON_BYTES].decode(errors="ignore")
    await websocket.close(effect.code, reason)
