"""GET /v1/devices: where models can run here. `audiocppd --list-devices` prints the same."""

import trio
from quart import Blueprint, Response

from audiocpp.daemon.http.reply import json_reply
from audiocpp.engines.devices import devices_document, list_devices
from audiocpp.engines.host import read_host

devices = Blueprint("devices", __name__)


@devices.get("/v1/devices")
async def get_devices() -> Response:
    """Lists the devices that models can run on, with their memory now."""
    return json_reply(devices_document(await trio.to_thread.run_sync(lambda: list_devices(read_host()))))
