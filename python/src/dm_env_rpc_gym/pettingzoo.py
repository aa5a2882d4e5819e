# SPDX-License-Identifier: Apache-2.0
"""Several agents in one world, as environments of PettingZoo."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from typing_extensions import Unpack

from ._agent_specs import WAITING, Frame, Step
from ._agents import Agents, AgentsOnOneStream, AgentsOnStreams
from ._options import Caller, Options
from .env import RemoteEnv, metadata_of, reset_settings
from .errors import ActionError, ServerError, SpecError, UsageError


class RemoteParallelEnv(ParallelEnv[str, Any, Any]):
    """Several agents in one world, stepped together.

    If the server supports it, the agents have seats on one stream, and one message per step carries
    all of them. Otherwise each agent has its own stream.

    An agent whose sequence ends leaves `agents` until the next `reset`. Agents join, reset and step
    in the order of `possible_agents`, so that a world that acts on each request as it arrives gives
    the same sequences for the same seed and actions. Sequences in real time are not reproducible.

    In a world where agents take turns, or sleep for different times, a step on one stream returns
    at the next turn of any agent. The others have `waiting` in their infos, their last
    observation, which is zeros before their first turn, and the reward 0; their next action is
    ignored. Such a world cannot be played with a stream for each agent.

    Args:
        address: `host:port` of the server, or `unix:/path`; `https://host:port` for TLS.
        num_agents: Number of agents, which are named `agent_0`, `agent_1`, and so on.
        **options: Keyword arguments of `Options`. `render` shows the first agent's frame.

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
            ActionError: An agent's action is missing or does not fit; nothing was sent.
            ServerError: The world refused an action. Over one stream nothing has changed, and the
                agents can step again; over a stream each, call `reset`.
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
        requests = self._requests({agent: actions[agent] for agent in self.agents})
        stepping, self.agents = self.agents, []
        try:
            answers = self._joined.step(requests, indices)
        except ServerError:
            if self.one_stream:
                self.agents = stepping
            raise
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
        """Leaves the world, destroys a world that it created, and disconnects; never raises."""
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
            # A server without seats refuses the setting; other errors occur again with streams.
            return AgentsOnStreams(*arguments)

    def _requests(self, actions: Mapping[str, Any]) -> Mapping[int, Any]:
        """Packs the actions of some agents; an ActionError says which does not fit."""
        return self._joined.requests(
            {self.possible_agents.index(agent): action for agent, action in actions.items()}
        )

    def _keep_frame(self, steps: Mapping[str, Step]) -> None:
        first = steps.get(self.possible_agents[0])
        if first is not None:
            self._frame = first.frame

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the environment is closed", "FAILED_PRECONDITION", "create a new one")


class RemoteAECEnv(AECEnv[str, Any, Any]):
    """Several agents in one world; one of them acts at a time.

    In a world where agents take turns, `agent_selection` is the agent whose turn it is. If
    several act at once, each is selected in the order of `possible_agents`, and the world steps
    after the last. An agent's `legal_actions` are the `action_mask` of its info.

    Args:
        address: `host:port` of the server, or `unix:/path`; `https://host:port` for TLS.
        num_agents: How many; they are called `agent_0`, `agent_1`, and so on.
        **options: As `Options` has them. `render` shows what the first agent sees.

    Raises:
        RequestTimeoutError: No connection, or no answer.
        ServerError: The server refused the world or its settings.
        SpecError: The world's specs do not fit the options.

    Example:
        >>> env = RemoteAECEnv("localhost:8980", 2)
        >>> env.reset(seed=1)
        >>> for agent in env.agent_iter():
        ...     _, _, terminated, truncated, info = env.last()
        ...     mask = info.get("action_mask")
        ...     ended = terminated or truncated
        ...     env.step(None if ended else env.action_space(agent).sample(mask))
    """

    metadata: dict[str, Any] = RemoteParallelEnv.metadata
    agent_selection: str

    def __init__(self, address: str, num_agents: int, **options: Unpack[Options]) -> None:
        super().__init__()
        self._parallel = RemoteParallelEnv(address, num_agents, **options)
        self.metadata = self._parallel.metadata
        self.render_mode = self._parallel.render_mode
        self.possible_agents = self._parallel.possible_agents
        self.agents: list[str] = []
        self._chosen: dict[str, Any] = {}

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's observations."""
        return self._parallel.observation_space(agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The space of an agent's actions."""
        return self._parallel.action_space(agent)

    def observe(self, agent: str) -> Any:
        """Returns an agent's last observation, which is zeros before its first turn."""
        return self._observations[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins a sequence of every agent; seed and options are as in `RemoteEnv.reset`."""
        self.agents = []
        self._observations, self.infos = self._parallel.reset(seed, options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._await_actions()

    def step(self, action: Any) -> None:
        """Gives the action of `agent_selection`; None for an agent that has ended.

        Raises:
            ActionError: The action does not fit; nothing was sent.
            ServerError: The world refused an action. Over one stream nothing has changed, and the
                agents that were asked act again; over a stream each, call `reset`.
        """
        if not self.agents:
            raise UsageError("no agent is in a sequence", "FAILED_PRECONDITION", "call reset")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._parallel._requests({agent: action})
        self._chosen[agent] = action
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        unasked = [other for other in self._due if other not in self._chosen]
        if unasked:
            self.agent_selection = unasked[0]
            return
        # Agents that are not due need an action too, which the world ignores.
        actions = {**dict.fromkeys(self._parallel.agents, action), **self._chosen}
        playing, self.agents = self.agents, []
        try:
            step = self._parallel.step(actions)
        except ServerError:
            if self._parallel.agents:
                self.agents = playing
                self._chosen = {}
                self.agent_selection = self._due[0]
            raise
        self.agents = playing
        self._observations, self.rewards, self.terminations, self.truncations, self.infos = step
        self._accumulate_rewards()
        self._await_actions()
        self._deads_step_first()

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Returns the frame of the first agent's last step, if there is one to show."""
        return self._parallel.render()

    def close(self) -> None:
        """Leaves the world, destroys it if it was made here, and disconnects; never raises."""
        self.agents = []
        self._parallel.close()

    def _await_actions(self) -> None:
        """Selects the first of the agents that act next."""
        playing = self._parallel.agents
        self._due = [agent for agent in playing if not self.infos[agent].get(WAITING)]
        self._chosen = {}
        self.agent_selection = (self._due or self.agents)[0]
