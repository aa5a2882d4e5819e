# SPDX-License-Identifier: Apache-2.0
"""Errors of this package. All of them survive pickling, so worker processes can raise them."""


class RemoteError(Exception):
    """Base class of the package's errors.

    Args:
        message: What happened. An error of this package is copied: `AsyncVectorEnv` raises
            `type(error)(error)` for an error of a worker.
        code: Name of the gRPC code, such as `"UNAVAILABLE"`.
        remedy: What to do about it.
    """

    def __init__(self, message: object, code: str = "UNKNOWN", remedy: str = "") -> None:
        if isinstance(message, RemoteError):
            message, code, remedy = message.args
        super().__init__(str(message), code, remedy)

    @property
    def message(self) -> str:
        """Text of the error without its code and remedy."""
        return str(self.args[0])

    @property
    def code(self) -> str:
        """Name of the gRPC code, such as `"UNAVAILABLE"`."""
        return str(self.args[1])

    @property
    def remedy(self) -> str:
        """Action that solves the problem; empty if the message names it."""
        return str(self.args[2])

    def __str__(self) -> str:
        text = f"{self.code}: {self.message}"
        return f"{text}; {self.remedy}" if self.remedy else text


class ServerError(RemoteError):
    """The server refused a request. Nothing has changed, and the stream stays open."""


class ConnectionLostError(RemoteError):
    """The stream ended. The next `reset` connects again."""


class RequestTimeoutError(RemoteError):
    """The server did not answer in time. The next `reset` connects again."""


class ActionError(RemoteError, ValueError):
    """An action does not fit its spec. Nothing was sent."""


class SpecError(RemoteError, ValueError):
    """A world's specs do not fit the options."""


class UsageError(RemoteError, RuntimeError):
    """A call was invalid in this state, or in a forked process."""
