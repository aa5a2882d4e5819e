# SPDX-License-Identifier: Apache-2.0
"""The slots of a vector environment, which batches and streams implement."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ._agent_specs import AgentSpecs
from ._options import Caller
from ._session import Session, gather
from .errors import SpecError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Stepped = tuple[Any, Floats, Bools, Bools, dict[str, Any]]
"""Observations, rewards, terminated, truncated and infos."""


class Slots(Protocol):
    """The slots of a vector environment, on one stream or on many."""

    @property
    def specs(self) -> AgentSpecs:
        """The specs of each slot."""

    def reset(
        self, seeds: Sequence[int | None], mask: Bools, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Begins a sequence in each slot that a mask selects."""

    def requests(self, actions: Any, beginning: Bools) -> Any:
        """Packs a step.

        Raises:
            ActionError: An action does not fit.
        """

    def step(self, requests: Any, beginning: Bools) -> Stepped:
        """Steps every slot; the slots in `beginning` have ended and begin their next sequence."""

    def frames(self) -> tuple[Any, ...]:
        """The frame of each slot's last step."""

    def close(self) -> None:
        """Closes every slot; never raises."""


class JoinedSlots:
    """Slots whose sessions are opened together, and all closed if one fails to open.

    Args:
        caller: Runs the calls of the sessions.
        sessions: The sessions, by the first slot of each.

    Raises:
        SpecError: The worlds' specs do not fit the options, or each other.
    """

    def __init__(self, caller: Caller, sessions: Mapping[int, Session]) -> None:
        self._caller = caller
        self._sessions = sessions
        try:
            self._together({slot: session.open() for slot, session in sessions.items()}, "joining")
            self._check_alike()
        except BaseException:
            self.close()
            raise

    @property
    def specs(self) -> AgentSpecs:
        """The specs of each slot."""
        return self._sessions[0].specs[0]

    def close(self) -> None:
        """Closes every slot; never raises."""
        self._caller.close(gather(session.close() for session in self._sessions.values()))

    def _together(self, calls: Mapping[int, Coroutine[Any, Any, Any]], what: str) -> dict[int, Any]:
        """Runs a call in each of some sessions at once."""
        results = self._caller.call(gather(self._run(*each) for each in calls.items()), what)
        return dict(zip(calls, results, strict=True))

    async def _run(self, slot: int, call: Coroutine[Any, Any, Any]) -> Any:
        """Runs the call of a session."""
        del slot
        return await call

    def _check_alike(self) -> None:
        first = self.specs
        for slot, session in self._sessions.items():
            [other] = session.specs
            if (other.observation_space, other.action_space) != (
                first.observation_space,
                first.action_space,
            ):
                raise SpecError(
                    f"slot {slot} has other specs than slot 0",
                    "FAILED_PRECONDITION",
                    "give servers of the same world",
                )
