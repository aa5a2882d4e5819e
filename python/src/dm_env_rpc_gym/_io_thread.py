# SPDX-License-Identifier: Apache-2.0
"""The event loop of this process: one thread that all environments share.

gRPC's asyncio API binds its poller to the loops that it has seen, and fails on closed ones, so
the loop lives as long as the process.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from .errors import RequestTimeoutError, UsageError

T = TypeVar("T")

SLACK_SECONDS = 5.0
"""How much longer than its own deadline a coroutine may take before its loop counts as stuck."""


class _IoThread:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    def loop(self) -> asyncio.AbstractEventLoop:
        if self._forked:
            raise UsageError(
                "gRPC does not survive a fork: this process was forked from one that had opened "
                "an environment",
                "FAILED_PRECONDITION",
                'start workers by spawn, such as AsyncVectorEnv(..., context="spawn")',
            )
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="dm-env-rpc-gym", daemon=True
                ).start()
            return self._loop

    def _after_fork(self) -> None:
        self._forked = self._loop is not None
        self._lock = threading.Lock()


_io_thread = _IoThread()


def run(coroutine: Coroutine[Any, Any, T], what: str, timeout: float) -> T:
    """Runs a coroutine on the shared loop and waits for its result.

    Args:
        coroutine: Is cancelled at the deadline, and when this thread is interrupted.
        what: Names the call in the error.
        timeout: Seconds.

    Raises:
        RequestTimeoutError: The deadline passed.
        UsageError: The process was forked after the loop had started.
    """
    try:
        loop = _io_thread.loop()
    except UsageError:
        coroutine.close()
        raise
    future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, timeout), loop)
    try:
        return future.result(timeout + SLACK_SECONDS)
    except (asyncio.TimeoutError, concurrent.futures.TimeoutError):
        raise RequestTimeoutError(
            f"{what} was not answered within {timeout:g} s",
            "DEADLINE_EXCEEDED",
            "check that the server runs and is not overloaded, or raise timeout=; reset() connects "
            "again",
        ) from None
    finally:
        future.cancel()
