# SPDX-License-Identifier: Apache-2.0
"""The agents of a parallel environment, on one stream or on a stream each."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ._agent_specs import AgentSpecs, Rows, SeatsStep, Step, seats_of
from ._options import Caller, Options
from ._session import Session
from ._stream import Host


class Agents(Protocol):
    """Agents in one world, by their index."""

    @property
    def specs(self) -> Sequence[AgentSpecs]:
        """The specs of each agent."""

    def reset(self, seed: int | None, settings: Mapping[str, Any]) -> list[Step]:
        """Begins a sequence of every agent."""

    def requests(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """Packs a step of some agents.

        Raises:
            ActionError: An action does not fit.
        """

    def step(self, requests: Mapping[int, Any], stepping: Sequence[int]) -> list[Step]:
        """Steps some agents; the others do not take part in the world's sequence."""

    def close(self) -> None:
        """Ends the session; never raises."""


class _Joined:
    """Agents of one session, which the constructor opens, and closes if opening fails."""

    def __init__(
        self, caller: Caller, host: Host, options: Options, agents: int, rows: Rows | None
    ) -> None:
        self._caller = caller
        self._session = Session(host, options, agents, rows)
        caller.call(self._session.open(), f"joining a world on {host.address}")

    def close(self) -> None:
        """Ends the session; never raises."""
        self._caller.close(self._session.close())

    def _reset(self, seed: int | None, settings: Mapping[str, Any]) -> list[Any]:
        begun = self._caller.call(self._session.reset(seed, settings), "reset")
        self._session.warn_of_seeds()
        return begun

    def _step(self, requests: Mapping[int, Any]) -> list[Any]:
        return self._caller.call(self._session.step(requests), "step")


class AgentsOnStreams(_Joined):
    """Agents that have a stream each."""

    def __init__(self, caller: Caller, host: Host, options: Options, agents: int) -> None:
        super().__init__(caller, host, options, agents, None)

    @property
    def specs(self) -> Sequence[AgentSpecs]:
        """The specs of each agent."""
        return self._session.specs

    def reset(self, seed: int | None, settings: Mapping[str, Any]) -> list[Step]:
        """Begins a sequence of every agent."""
        return self._reset(seed, settings)

    def requests(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """Packs a step of each agent."""
        specs = self.specs
        return {index: specs[index].request(action) for index, action in actions.items()}

    def step(self, requests: Mapping[int, Any], stepping: Sequence[int]) -> list[Step]:
        """Steps the agents of the requests."""
        del stepping
        return self._step(requests)


class AgentsOnOneStream(_Joined):
    """Agents with a seat each on one stream, which steps all of them with one message.

    Raises:
        ServerError: The server or its world does not support several seats.
        SpecError: The specs show that the server ignored the setting `seats`.
    """

    def __init__(self, caller: Caller, host: Host, options: Options, agents: int) -> None:
        super().__init__(caller, host, options, 1, seats_of(agents))
        self._count = agents

    @property
    def specs(self) -> Sequence[AgentSpecs]:
        """The specs of each agent, which are the same."""
        return [self._session.specs[0]] * self._count

    def reset(self, seed: int | None, settings: Mapping[str, Any]) -> list[Step]:
        """Begins a sequence of every agent."""
        step: SeatsStep
        [step] = self._reset(seed, settings)
        return list(step.rows)

    def requests(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """Packs the step of the stream."""
        return {0: self.specs[0].seats_request(actions)} if actions else {}

    def step(self, requests: Mapping[int, Any], stepping: Sequence[int]) -> list[Step]:
        """Steps the rows that are in a sequence."""
        if not requests:
            return []
        step: SeatsStep
        [step] = self._step(requests)
        return [step.rows[index] for index in stepping]
