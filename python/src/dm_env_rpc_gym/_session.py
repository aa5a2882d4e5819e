# SPDX-License-Identifier: Apache-2.0
"""Agents in a world: creates the world, joins it, and does so again after a loss."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dm_env_rpc.v1 import dm_env_rpc_pb2

from ._agent_specs import SEATS, AgentSpecs, BatchStep, Rows, SeatsStep, Step
from ._options import Options
from ._stream import Host, Stream
from ._tensors import pack_settings
from .errors import ConnectionLostError, RemoteError, ServerError, SpecError

SEED = "seed"
"""Setting that takes the seed of `reset`, where a world declares it."""

SEEDS = "seeds"
"""Setting that takes a seed for each slot of a batch."""

Seed = int | npt.NDArray[np.uint64]

_FIRST_STEPS = 3
"""Steps that a sequence may take to begin: each may still report an end of before."""

Request = dm_env_rpc_pb2.EnvironmentRequest


@dataclass
class _Agent:
    stream: Stream
    specs: AgentSpecs
    running: bool = False


class Session:
    """Agents that share a world, each on a stream of its own, or with rows.

    Requests are sent in the order of the agents, each on the wire before the next one, and then all
    answers are awaited. So a world that acts on arrival acts in that order, and a world that waits
    for every agent receives all requests. The order holds for `STREAMS_PER_CHANNEL` agents, which
    share a connection.

    Args:
        host: Server to which the streams connect.
        options: Options of the world and its agents.
        agents: Number of agents.
        rows: Rows of each stream: a batch or several seats. None for one agent.
    """

    def __init__(
        self, host: Host, options: Options, agents: int = 1, rows: Rows | None = None
    ) -> None:
        self._host = host
        self._options = options
        self._count = agents
        self._rows = rows
        self._agents: list[_Agent] = []
        self._world = options.get("world")
        self._owned = self._world is None
        self._left_behind: list[str] = []
        self._opened = False
        self._seed_routes: list[Callable[[Seed], Awaitable[None]]] = [self._seed_by_reset]
        if self._owned and (rows is None or rows.setting == SEATS):
            self._seed_routes += [self._seed_by_reset_world, self._seed_by_create]
        self._refusal: str | None = None

    @property
    def specs(self) -> Sequence[AgentSpecs]:
        """The specs of every agent."""
        return [agent.specs for agent in self._agents]

    @property
    def world_name(self) -> str:
        """Name of the world that was joined."""
        return self._world or ""

    @property
    def lost(self) -> bool:
        """True if the next reset has to connect again."""
        return not self._opened or any(agent.stream.lost for agent in self._agents)

    def warn_of_seeds(self) -> None:
        """Warns once, in the caller's thread, if no setting of the world accepted a seed."""
        if self._seed_routes or self._refusal is None:
            return
        warnings.warn(
            f"the world accepts no seed: reset(seed=...) seeds only np_random ({self._refusal})",
            stacklevel=3,
        )
        self._refusal = None

    async def open(self) -> None:
        """Creates the world and joins it; undoes both if one fails."""
        await self._open({})

    async def reset(self, seed: Seed | None, settings: Mapping[str, Any]) -> list[Any]:
        """Begins a sequence of every agent, over new streams if one was lost.

        Args:
            seed: Seed of the world, or one for each slot of a batch. Sent in the first request that
                accepts it: the agent's reset, a reset of the world, or the creation of a new world.
            settings: Settings of the reset.
        """
        packed = pack_settings(settings)
        if not self.lost:
            try:
                return await self._begin(seed, packed)
            except ServerError as error:
                if error.code == "INVALID_ARGUMENT":
                    raise
            except ConnectionLostError:
                pass
        # The server, its world or a stream is gone.
        await self._reopen({})
        return await self._begin(seed, packed)

    async def step(self, requests: Mapping[int, Any]) -> list[Any]:
        """Steps agents by their index, sent in that order."""
        agents = [self._agents[index] for index in requests]
        for agent, request in zip(agents, requests.values(), strict=True):
            await agent.stream.send(request)
        return await gather(self._receive_step(agent) for agent in agents)

    async def restart(
        self,
        mask: npt.NDArray[np.bool_],
        seeds: Seed | None,
        present: npt.NDArray[np.bool_],
    ) -> BatchStep:
        """Begins the sequences of some slots of a batch; the others stay as they are.

        Args:
            mask: True for the slots that begin a sequence.
            seeds: One for each slot, or None.
            present: The slots that have infos in the result.
        """
        [agent] = self._agents
        await agent.stream.send(agent.specs.reset_request(mask, seeds))
        return agent.specs.read_batch(await agent.stream.receive(), present)

    async def first_steps(self) -> list[Any]:
        """Begins the next sequence of agents whose last one has ended."""
        for agent in self._agents:
            await agent.stream.send(agent.specs.first_request())
        return await gather(self._receive_first_step(agent) for agent in self._agents)

    async def close(self) -> None:
        """Leaves the world, destroys it if this session created it, and ends the streams."""
        agents, self._agents = self._agents, []
        self._opened = False
        if self._owned and self._world is not None:
            self._left_behind.append(self._world)
            self._world = None
        try:
            alive = [agent for agent in agents if not agent.stream.lost]
            await _quietly(gather(_leave(agent.stream) for agent in alive))
            if alive:
                await _quietly(self._destroy_left_behind(alive[0].stream))
        finally:
            for agent in agents:
                await agent.stream.close()

    async def _open(self, extra: Mapping[str, Any]) -> None:
        first = await self._host.open()
        streams = [first]
        try:
            await _quietly(self._destroy_left_behind(first))
            if self._world is None:
                settings = pack_settings({**self._options.get("create_settings", {}), **extra})
                created = await first.request(
                    Request(create_world=dm_env_rpc_pb2.CreateWorldRequest(settings=settings))
                )
                self._world = created.world_name
            while len(streams) < self._count:
                streams.append(await self._host.open())
            rows = {} if self._rows is None else {self._rows.setting: np.int32(self._rows.count)}
            join = dm_env_rpc_pb2.JoinWorldRequest(
                world_name=self._world,
                settings=pack_settings({**self._options.get("join_settings", {}), **rows}),
            )
            # One after another, because a world assigns its seats in the order of the joins.
            joined = [await stream.request(Request(join_world=join)) for stream in streams]
            self._agents = [
                _Agent(stream, self._read_specs(response.specs))
                for stream, response in zip(streams, joined, strict=True)
            ]
            self._opened = True
        except BaseException as error:
            if self._owned and self._world is not None:
                self._left_behind.append(self._world)
                self._world = None
            # A call that was cancelled has no time left to ask the server.
            if isinstance(error, Exception):
                await _quietly(gather(_leave(stream) for stream in streams))
                await _quietly(self._destroy_left_behind(first))
            for stream in streams:
                await stream.close()
            raise

    async def _reopen(self, extra: Mapping[str, Any]) -> None:
        before = self.specs
        await self.close()
        await self._open(extra)
        if before and [specs.sent for specs in before] != [specs.sent for specs in self.specs]:
            raise _specs_changed()

    def _read_specs(self, specs: dm_env_rpc_pb2.ActionObservationSpecs) -> AgentSpecs:
        options = self._options
        return AgentSpecs(
            specs,
            options.get("observations"),
            options.get("actions"),
            options.get("render_mode") is not None,
            self._rows,
        )

    async def _begin(
        self, seed: Seed | None, settings: Mapping[str, dm_env_rpc_pb2.Tensor]
    ) -> list[Any]:
        if seed is not None:
            await self._seed(seed)
        await self._reset([agent for agent in self._agents if agent.running or settings], settings)
        return await self.first_steps()

    async def _seed(self, seed: Seed) -> None:
        for route in self._seed_routes:
            try:
                await route(seed)
            except ServerError as error:
                if error.code != "INVALID_ARGUMENT":
                    raise
                self._refusal = error.message
            else:
                self._seed_routes = [route]
                return
        self._seed_routes = []
        if not self._opened:
            await self._open({})

    async def _seed_by_reset(self, seed: Seed) -> None:
        name = SEEDS if isinstance(seed, np.ndarray) else SEED
        await self._reset(self._agents, pack_settings({name: seed}))

    async def _seed_by_reset_world(self, seed: Seed) -> None:
        # No other agent may be RUNNING, or the call would wait until it had stepped.
        await self._reset([agent for agent in self._agents if agent.running], {})
        request = dm_env_rpc_pb2.ResetWorldRequest(
            world_name=self._world, settings=pack_settings({SEED: seed})
        )
        await self._agents[0].stream.request(Request(reset_world=request))

    async def _seed_by_create(self, seed: Seed) -> None:
        await self._reopen({SEED: seed})

    async def _reset(
        self, agents: Sequence[_Agent], settings: Mapping[str, dm_env_rpc_pb2.Tensor]
    ) -> None:
        request = Request(reset=dm_env_rpc_pb2.ResetRequest(settings=settings))
        for agent in agents:
            await agent.stream.send(request)
        await gather(self._receive_reset(agent) for agent in agents)

    async def _receive_reset(self, agent: _Agent) -> None:
        response = await agent.stream.receive()
        agent.running = False
        if response.specs != agent.specs.sent:
            raise _specs_changed()

    async def _receive_first_step(self, agent: _Agent) -> Step | BatchStep | SeatsStep:
        for attempt in range(_FIRST_STEPS):
            if attempt > 0:
                await agent.stream.send(agent.specs.first_request())
            step = await self._receive_step(agent)
            if step.begun:
                return step
        raise ServerError(
            f"no sequence began: expected RUNNING, received an end from {_FIRST_STEPS} steps in a "
            "row",
            "INTERNAL",
            "report it to the authors of the world",
        )

    async def _receive_step(self, agent: _Agent) -> Step | BatchStep | SeatsStep:
        step = agent.specs.read(await agent.stream.receive())
        agent.running = not step.ended
        return step

    async def _destroy_left_behind(self, stream: Stream) -> None:
        """Destroys the worlds of this session; retries later for worlds that still have agents."""
        names, self._left_behind = self._left_behind, []
        for name in names:
            try:
                destroy = dm_env_rpc_pb2.DestroyWorldRequest(world_name=name)
                await stream.request(Request(destroy_world=destroy))
            except ServerError as error:
                if error.code != "NOT_FOUND":
                    self._left_behind.append(name)


async def gather(coroutines: Any) -> list[Any]:
    """Runs coroutines together to their ends, then raises the first error if there was one.

    No coroutine keeps running: a stream that awaits an answer must be marked before its next use.
    """
    together = list(coroutines)
    if len(together) == 1:
        # Without the turns of the event loop that a task takes.
        return [await together[0]]
    results = await asyncio.gather(*together, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


async def _leave(stream: Stream) -> None:
    await stream.request(Request(leave_world=dm_env_rpc_pb2.LeaveWorldRequest()))


async def _quietly(ending: Awaitable[Any]) -> None:
    """Awaits a part of closing; ignores its errors, because the server ends what remains."""
    try:
        await ending
    except RemoteError:
        return


def _specs_changed() -> SpecError:
    return SpecError(
        "specs changed with a reset: expected those of the join",
        "FAILED_PRECONDITION",
        "close the environment and create a new one",
    )
