# SPDX-License-Identifier: Apache-2.0
"""Event loops that run while a call waits, in the thread of the caller.

A loop in a thread of its own would cost two switches of threads a call, three times as long as
the call itself.
"""

import asyncio
import concurrent.futures
import os
import threading
import time
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from .errors import RequestTimeoutError, UsageError

T = TypeVar("T")


class _Loops:
    """The event loops of this process.

    gRPC's asyncio API binds its poller to every loop that it has seen, and fails on closed ones, so
    a loop is not closed but kept for the next runner.
    """

    def __init__(self) -> None:
        self._free: list[asyncio.AbstractEventLoop] = []
        self._started = False
        self.forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    def take(self) -> asyncio.AbstractEventLoop:
        self._started = True
        try:
            return self._free.pop()
        except IndexError:
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(_ignore_races)
            return loop

    def give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free.append(loop)

    def _after_fork(self) -> None:
        self.forked = self._started


def _ignore_races(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Passes on all errors but those that event loops in several threads cause for one event."""
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)


_loops = _Loops()


class Runner:
    """Runs coroutines on an event loop of its own, one at a time.

    Raises:
        UsageError: The process was forked from one that had made a runner.
    """

    def __init__(self) -> None:
        _check_not_forked()
        self._loop = _loops.take()
        self._lock = threading.Lock()
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        weakref.finalize(self, _loops.give_back, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T], what: str, timeout: float) -> T:
        """Runs a coroutine and returns its result.

        Args:
            coroutine: Cancelled at the deadline and when this thread is interrupted.
            what: Name of the call in the error.
            timeout: Deadline in seconds.

        Raises:
            RequestTimeoutError: The deadline passed.
            UsageError: The process was forked after the runner was made.
        """
        end = time.monotonic() + timeout
        try:
            _check_not_forked()
            if not self._lock.acquire(timeout=timeout):
                raise _overdue(what, timeout)
        except BaseException:
            coroutine.close()
            raise
        try:
            task = self._loop.create_task(coroutine)
            if asyncio._get_running_loop() is None:
                return self._finish(task, what, timeout, end)
            # A notebook, or another program of asyncio: a thread has one running loop at most.
            return self._finish_in_thread(task, what, timeout, end)
        finally:
            self._lock.release()

    def _finish(self, task: asyncio.Task[T], what: str, timeout: float, end: float) -> T:
        deadline = self._loop.call_later(end - time.monotonic(), task.cancel, what)
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            raise _overdue(what, timeout) from None
        except BaseException:
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task]))
            raise
        finally:
            deadline.cancel()

    def _finish_in_thread(self, task: asyncio.Task[T], what: str, timeout: float, end: float) -> T:
        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(1, "dm-env-rpc-gym")
        future = self._threads.submit(self._finish, task, what, timeout, end)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                self._loop.call_soon_threadsafe(task.cancel)
                concurrent.futures.wait([future])
            raise


def _check_not_forked() -> None:
    if _loops.forked:
        raise UsageError(
            "gRPC does not survive a fork: this process was forked from one that had opened an "
            "environment",
            "FAILED_PRECONDITION",
            'start workers by spawn, such as AsyncVectorEnv(..., context="spawn")',
        )


def _overdue(what: str, timeout: float) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"{what} timed out: expected an answer within {timeout:g} s, received none",
        "DEADLINE_EXCEEDED",
        "check that the server runs and is not overloaded, and that every agent for which the "
        "world waits has joined and steps; or raise timeout=; reset() connects again",
    )
