# SPDX-License-Identifier: Apache-2.0
"""Options of every environment, and calls of its server with a deadline."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import grpc

from ._runner import Runner
from ._stream import Host, Metadata
from .errors import RemoteError, UsageError

T = TypeVar("T")

CLOSE_SECONDS = 5.0
"""Maximum seconds that `close` waits for a server that does not answer."""

RENDER_MODES = ("rgb_array",)


class Options(TypedDict, total=False):
    """Keyword arguments of every environment.

    Attributes:
        create_settings: Settings of the world that is created; nested names get dots.
        join_settings: Settings of each agent.
        world: Name of an existing world to join. By default a world is created, and destroyed by
            `close`.
        observations: Names of the observations. By default all but `reward`, `discount` and
            `legal_actions`. A single observation is bare; several are a dict.
        actions: Names of the actions that are sent, by default all. A single action is bare.
        render_mode: `"rgb_array"` shows the world's observation `rgb`.
        timeout: Seconds that a call waits for its answer, by default 60.
        connect_timeout: Seconds that a connection may take, by default 10.
        credentials: TLS; by default plain text, or the system's authorities for `https://`.
        metadata: gRPC metadata of every stream, such as `[("authorization", "Bearer …")]`.
    """

    create_settings: Mapping[str, Any]
    join_settings: Mapping[str, Any]
    world: str | None
    observations: Sequence[str] | None
    actions: Sequence[str] | None
    render_mode: str | None
    timeout: float
    connect_timeout: float
    credentials: grpc.ChannelCredentials | None
    metadata: Metadata


class Caller:
    """Calls a server, each call with a deadline.

    Raises:
        TypeError: An option is unknown.
        UsageError: An option has an invalid value, or the process was forked.
    """

    def __init__(self, options: Options) -> None:
        unknown = sorted(options.keys() - Options.__annotations__.keys())
        if unknown:
            raise TypeError(
                f"options are unknown: expected some of {sorted(Options.__annotations__)}, "
                f"received {unknown}"
            )
        render_mode = options.get("render_mode")
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise UsageError(
                f'render_mode is unknown: expected "rgb_array" or None, received {render_mode!r}',
                "INVALID_ARGUMENT",
                "pass one of them",
            )
        self._options = options
        self._timeout = options.get("timeout", 60.0)
        self._runner = Runner()

    def host(self, address: str) -> Host:
        """Returns the opener of streams to an address."""
        options = self._options
        return Host(
            address,
            options.get("credentials"),
            options.get("metadata", ()),
            options.get("connect_timeout", 10.0),
        )

    def call(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
        """Runs a call, for at most `timeout`."""
        return self._runner.run(coroutine, what, self._timeout)

    def close(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Runs the end of a session, for a short time; the server ends what remains."""
        try:
            self._runner.run(coroutine, "close", min(self._timeout, CLOSE_SECONDS))
        except RemoteError:
            return
