# SPDX-License-Identifier: Apache-2.0
"""Streams of the protocol to one address, over channels that are replaced after a loss."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from google.rpc import code_pb2

from ._wire import parse_response, serialize
from .errors import ConnectionLostError, RemoteError, RequestTimeoutError, ServerError

STREAMS_PER_CHANNEL = 64
"""Below the streams that common servers allow on one connection (100 and more)."""

CHANNEL_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Each channel has its own backoff, however long another channel was refused.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

Metadata = Sequence[tuple[str, str]]

_PROCESS = "/dm_env_rpc.v1.Environment/Process"

_BROKEN = "Internal error from Core"
"""Text of gRPC for a write that failed."""

_ENDED = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""Errors of a call that has ended."""


class _Channel:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.grpc = channel
        self.streams = 0
        self.trusted = True


class Host:
    """Opens streams to one address.

    Args:
        address: `host:port`, `unix:/path`, or either one after `http://` or `https://`.
        credentials: TLS; by default plain text, or the system's authorities for `https://`.
        metadata: gRPC metadata of every stream.
        connect_timeout: Seconds that a connection may take.
    """

    def __init__(
        self,
        address: str,
        credentials: grpc.ChannelCredentials | None,
        metadata: Metadata,
        connect_timeout: float,
    ) -> None:
        self.address = address
        self._target = address.removeprefix("http://").removeprefix("https://").rstrip("/")
        if credentials is None and address.startswith("https://"):
            credentials = grpc.ssl_channel_credentials()
        self._credentials = credentials
        self._metadata = tuple(metadata)
        self._connect_timeout = connect_timeout
        self._channels: list[_Channel] = []

    async def open(self) -> "Stream":
        """Opens a stream.

        Raises:
            RequestTimeoutError: No connection within `connect_timeout`.
        """
        channel = self._channel()
        channel.streams += 1
        try:
            await asyncio.wait_for(channel.grpc.channel_ready(), self._connect_timeout)
        except asyncio.TimeoutError:
            await self.release(channel, trusted=False)
            raise RequestTimeoutError(
                f"connection to {self.address} was not made within {self._connect_timeout:g} s",
                "UNAVAILABLE",
                "check the address and that the server runs, or raise connect_timeout=",
            ) from None
        except BaseException:
            await self.release(channel, trusted=False)
            raise
        process = channel.grpc.stream_stream(
            _PROCESS, request_serializer=serialize, response_deserializer=parse_response
        )
        call = process(metadata=self._metadata)
        return Stream(self, channel, call)

    async def release(self, channel: _Channel, *, trusted: bool) -> None:
        """Releases a stream; a channel that has failed gets no more streams."""
        channel.streams -= 1
        channel.trusted = channel.trusted and trusted
        if channel.streams == 0 and channel in self._channels:
            self._channels.remove(channel)
            await channel.grpc.close()

    def _channel(self) -> _Channel:
        for channel in self._channels:
            if channel.trusted and channel.streams < STREAMS_PER_CHANNEL:
                return channel
        created = (
            grpc.aio.insecure_channel(self._target, options=CHANNEL_OPTIONS)
            if self._credentials is None
            else grpc.aio.secure_channel(self._target, self._credentials, options=CHANNEL_OPTIONS)
        )
        self._channels.append(_Channel(created))
        return self._channels[-1]


class Stream:
    """One `Process` stream: requests are answered one at a time."""

    def __init__(self, host: Host, channel: _Channel, call: Any) -> None:
        self._host = host
        self._channel = channel
        self._call = call
        self._awaited: str | None = None
        self._ended = False
        self.lost = False
        """True once an answer can no longer be matched to its request."""

    async def request(self, request: Any) -> Any:
        """Sends a request and returns the response of its own kind.

        Raises:
            ServerError: The server refused the request.
            ConnectionLostError: The stream has ended.
        """
        await self.send(request)
        return await self.receive()

    async def send(self, request: Any) -> None:
        """Sends a request; returns when it is on the wire, before all later requests.

        Call `receive` next: it raises the errors of both calls.
        """
        if self._awaited is not None:
            # The previous answer was not received, and must not be mistaken for this request's.
            self._give_up()
        if self.lost:
            return
        self._awaited = request.WhichOneof("payload")
        try:
            await self._call.write(request)
        except _ENDED:
            self._ended = True
        except BaseException:
            self._give_up()
            raise

    async def receive(self) -> Any:
        """Returns the response to the request that was sent.

        Raises:
            ServerError: The server refused the request.
            ConnectionLostError: The stream has ended.
        """
        if self.lost:
            raise ConnectionLostError(
                f"the stream to {self._host.address} was closed after an earlier error",
                "FAILED_PRECONDITION",
                "call reset(), which connects again",
            )
        try:
            response = grpc.aio.EOF if self._ended else await self._call.read()
        except _ENDED:
            response = grpc.aio.EOF
        except BaseException:
            # Cancelled while it awaited the answer, which must not be mistaken for the next one.
            self._give_up()
            raise
        if response is grpc.aio.EOF:
            self.lost = True
            raise await self._end()
        awaited, self._awaited = self._awaited, None
        received = response.WhichOneof("payload")
        if received == "error":
            raise server_error(response.error)
        if received != awaited:
            self._give_up()
            raise ConnectionLostError(
                f"the answer of {self._host.address} is of another kind: expected "
                f"{awaited}, received {received}",
                "INTERNAL",
                "report it to the authors of the server; reset() connects again",
            )
        return getattr(response, received)

    async def close(self) -> None:
        """Ends the stream."""
        self._call.cancel()
        await self._host.release(self._channel, trusted=not self.lost)

    def _give_up(self) -> None:
        self.lost = True
        self._call.cancel()

    async def _end(self) -> ConnectionLostError:
        code = await self._call.code()
        details = await self._call.details()
        if details == _BROKEN:
            code, details = grpc.StatusCode.UNAVAILABLE, "the connection broke"
        return ConnectionLostError(
            f"the stream to {self._host.address} ended: {details or 'the server closed it'}",
            "UNAVAILABLE" if code == grpc.StatusCode.OK else code.name,
            "check that the server runs; reset() connects again",
        )


def server_error(status: Any) -> RemoteError:
    """The error for a status that the server sent."""
    known = code_pb2.Code.DESCRIPTOR.values_by_number.get(status.code)
    return ServerError(status.message, known.name if known is not None else str(status.code))
