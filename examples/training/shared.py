# SPDX-License-Identifier: Apache-2.0
"""Parameter sharing: the agents of parallel environments as slots of one vector."""

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate


class SharedWorlds(VectorEnv):
    """The agents of several worlds, in SameStep mode.

    A slot is an agent, so that a learner of slots trains one policy for all. The agents of a world
    need the same spaces, and sequences that end together.

    Args:
        worlds: Parallel environments of PettingZoo.
    """

    def __init__(self, worlds):
        self.worlds = worlds
        agents = [agent for world in worlds for agent in world.possible_agents]
        self.num_envs = len(agents)
        self.single_observation_space = worlds[0].observation_space(agents[0])
        self.single_action_space = worlds[0].action_space(agents[0])
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(self, *, seed=None, options=None):
        """Begins a sequence in every world, each with a seed of its own."""
        super().reset(seed=seed)
        observations = []
        for index, world in enumerate(self.worlds):
            first, _ = world.reset(None if seed is None else seed + index, options)
            observations += first.values()
        return self._batched(observations), {}

    def step(self, actions):
        """Steps every world; one whose sequence ended begins the next."""
        chosen = iter(iterate(self.action_space, actions))
        observations, rewards, terminated, truncated = [], [], [], []
        final, ended = np.full(self.num_envs, None, object), np.zeros(self.num_envs, np.bool_)
        for world in self.worlds:
            acts = {agent: next(chosen) for agent in world.agents}
            seen, reward, terminations, truncations, _ = world.step(acts)
            if not world.agents:
                slots = slice(len(rewards), len(rewards) + len(seen))
                final[slots], ended[slots] = list(seen.values()), True
                seen, _ = world.reset()
            observations += seen.values()
            rewards += reward.values()
            terminated += terminations.values()
            truncated += truncations.values()
        infos = {"final_obs": final, "_final_obs": ended} if ended.any() else {}
        batched = self._batched(observations)
        return batched, np.array(rewards), np.array(terminated), np.array(truncated), infos

    def close_extras(self, **kwargs):
        """Closes every world."""
        for world in self.worlds:
            world.close()

    def _batched(self, observations):
        empty = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, observations, empty)
