"""TLS on an accepted connection, in the shape of the socket stream that a plain one is."""

import ssl

import trio


def server_context(cert_file: str, key_file: str | None) -> ssl.SSLContext:
    """For certificates in PEM. Raises `OSError` (`ssl.SSLError` is one) for files that cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert_file, key_file, password=_no_password)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    """Otherwise OpenSSL would ask for one on the terminal."""
    raise ssl.SSLError("the key is encrypted")


class TlsStream(trio.abc.HalfCloseableStream):
    """The server's side. The handshake is part of the first `receive_some` or `send_all`."""

    def __init__(self, transport: trio.SocketStream, context: ssl.SSLContext) -> None:
        self._transport = transport
        # A client that closes without a notice is no error in HTTP, which knows by itself where messages end.
        self._tls = trio.SSLStream(transport, context, server_side=True, https_compatible=True)
        self._receiving = trio.CancelScope()
        self._ended = False
        self._told = False

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._transport.socket

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        self._transport.setsockopt(level, option, value)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._tls.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._tls.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Nothing is sent any more. TLS tells so in a notice, whose answer only a receiver can see: so the notice goes
        out with the `receive_some` that is under way or comes next, and what that one and those after it return is for
        discarding.
        """
        self._ended = True
        self._receiving.cancel()
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self._ended:
            with trio.CancelScope() as self._receiving:
                return await self._tls.receive_some(max_bytes)
        if not self._told:
            self._told = True
            try:
                await self._tls.unwrap()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await trio.lowlevel.checkpoint()  # the client still sends, or has left
        return await self._transport.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._transport.aclose()
