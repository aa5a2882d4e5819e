# SPDX-License-Identifier: Apache-2.0
"""Several agents in one world, as a parallel environment of PettingZoo."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv
from typing_extensions import Unpack

from ._agent_specs import Frame, Step
from ._agents import Agents, AgentsOnOneStream, AgentsOnStreams
from ._options import Caller, Options
from .env import RemoteEnv, metadata_of, reset_settings
from .errors import ActionError, ServerError, SpecError, UsageError


class RemoteParallelEnv(ParallelEnv[str, Any, Any]):
    """Several agents in one world, stepped together.

    Where the server can, the agents have the seats of one stream, and one message a step carries
    them all. Elsewhere each agent has a stream of its own.

    An agent whose sequence ends leaves `agents` until the next `reset`. Agents join, reset and step
    in the order of `possible_agents`, which decides in a world that acts on each as it arrives: a
    seed and the same actions give the same sequences. In real time nothing gives them again.

    In a world where agents take turns, or sleep for different times, a step of one stream returns
    with the next turn of any agent. The others have `waiting` in their infos, their last
    observation, which is zeros before their first turn, and the reward 0; their next action is
    ignored. With a stream for each agent such a world is not playable.

    Args:
        address: `host:port` of the server, or `unix:/path`; `https://host:port` for TLS.
        num_agents: How many; they are called `agent_0`, `agent_1`, and so on.
        **options: As `Options` has them. `render` shows what the first agent sees.

    Raises:
        RequestTimeoutError: No connection, or no answer.
        ServerError: The server refused the world or its settings.
        SpecError: The world's specs do not fit the options.

    Example:
        >>> env = RemoteParallelEnv("localhost:8980", 3)
        >>> observations, infos = env.reset(seed=1)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 as PettingZoo has it
        **RemoteEnv.metadata,
        "name": "dm_env_rpc_v0",
    }

    def __init__(self, address: str, num_agents: int, **options: Unpack[Options]) -> None:
        if num_agents < 1:
            raise UsageError(
                f"num_agents is out of range: expected 1 or more, received {num_agents}",
                "INVALID_ARGUMENT",
                "correct it",
            )
        self._joined = self._join(address, num_agents, options)
        self.possible_agents = [f"agent_{index}" for index in range(num_agents)]
        self.agents: list[str] = []
        self.render_mode = options.get("render_mode")
        self._specs = dict(zip(self.possible_agents, self._joined.specs, strict=True))
        first = self._specs[self.possible_agents[0]]
        self.metadata = {**RemoteParallelEnv.metadata, **metadata_of(first)}
        self.observation_spaces = {
            agent: specs.observation_space for agent, specs in self._specs.items()
        }
        self.action_spaces = {agent: specs.action_space for agent, specs in self._specs.items()}
        self.np_random, self.np_random_seed = seeding.np_random()
        self._frame: Frame | None = None
        self._closed = False

    @property
    def one_stream(self) -> bool:
        """True if one stream carries the steps of all agents."""
        return isinstance(self._joined, AgentsOnOneStream)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begins a sequence of every agent; seed and options are as in `RemoteEnv.reset`."""
        self._check_open()
        if seed is not None:
            self.np_random, self.np_random_seed = seeding.np_random(seed)
        self.agents = []
        begun = self._joined.reset(seed, reset_settings(options))
        self.agents = list(self.possible_agents)
        steps = dict(zip(self.agents, begun, strict=True))
        self._keep_frame(steps)
        return (
            {agent: step.observation for agent, step in steps.items()},
            {agent: step.info for agent, step in steps.items()},
        )

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[
        dict[str, Any],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Steps every agent that is in `agents`, together.

        Raises:
            ActionError: One's action is missing or does not fit; nothing was sent.
        """
        self._check_open()
        missing = [agent for agent in self.agents if agent not in actions]
        unknown = [agent for agent in actions if agent not in self._specs]
        if missing or unknown:
            raise ActionError(
                f"actions do not fit the agents: expected one for each of {self.agents}, received "
                f"those of {list(actions)}",
                "INVALID_ARGUMENT",
                "give an action for every agent in env.agents; nothing was sent",
            )
        indices = [i for i, agent in enumerate(self.possible_agents) if agent in self.agents]
        requests = self._joined.requests({i: actions[self.possible_agents[i]] for i in indices})
        stepping, self.agents = self.agents, []
        answers = self._joined.step(requests, indices)
        steps: dict[str, Step] = dict(zip(stepping, answers, strict=True))
        self.agents = [agent for agent in stepping if not steps[agent].ended]
        self._keep_frame(steps)
        return (
            {agent: step.observation for agent, step in steps.items()},
            {agent: step.reward for agent, step in steps.items()},
            {agent: step.terminated for agent, step in steps.items()},
            {agent: step.truncated for agent, step in steps.items()},
            {agent: step.info for agent, step in steps.items()},
        )

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Returns the frame of the first agent's last step, if there is one to show."""
        return None if self._frame is None else self._frame.copy()

    def close(self) -> None:
        """Leaves the world, destroys it if it was made here, and disconnects; never raises."""
        if self._closed:
            return
        self._closed = True
        self.agents = []
        self._joined.close()

    def _join(self, address: str, num_agents: int, options: Options) -> Agents:
        caller = Caller(options)
        arguments = (caller, caller.host(address), options, num_agents)
        try:
            return AgentsOnOneStream(*arguments)
        except SpecError:
            return AgentsOnStreams(*arguments)
        except ServerError as error:
            if error.code == "RESOURCE_EXHAUSTED":
                raise
            # A server without seats refuses their setting; what else is wrong, it says again.
            return AgentsOnStreams(*arguments)

    def _keep_frame(self, steps: Mapping[str, Step]) -> None:
        first = steps.get(self.possible_agents[0])
        if first is not None:
            self._frame = first.frame

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the environment is closed", "FAILED_PRECONDITION", "make a new one")
