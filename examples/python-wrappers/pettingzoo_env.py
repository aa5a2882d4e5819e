# SPDX-License-Identifier: Apache-2.0
"""A dm_env_rpc world as a parallel environment of PettingZoo: one connection an agent."""

import concurrent.futures

import grpc
import numpy as np
from dm_env_rpc.v1 import connection, dm_env_adaptor, dm_env_rpc_pb2, tensor_utils
from pettingzoo import ParallelEnv
from spaces_of_specs import action_for, observation_in, space_of


class RemoteParallelEnv(ParallelEnv):
    """Several agents in one world, whose clock is lock-step.

    Args:
        address: `host:port` of the server.
        count: How many agents.
        create_settings: Settings of the world.
        observations: Names of the observations to ask for; by default all but the reward.
        seed_setting: Setting of a reset of the world that takes the seed.
    """

    metadata = {"name": "dm_env_rpc_v0", "render_modes": []}
    render_mode = None

    def __init__(
        self, address, count, create_settings=None, observations=None, seed_setting="seed"
    ):
        self.possible_agents = [f"agent_{number}" for number in range(count)]
        self.agents = []
        self._seed_setting = seed_setting
        self._threads = concurrent.futures.ThreadPoolExecutor(count)
        self._connections = [self._connect(address) for _ in range(count + 1)]
        self._world = dm_env_adaptor.create_world(self._host, create_settings or {})
        wanted = {} if observations is None else {"requested_observations": observations}
        self._envs = {
            agent: dm_env_adaptor.join_world(connected, self._world, {"name": agent}, **wanted)
            for agent, connected in zip(self.possible_agents, self._connections, strict=False)
        }
        self._observation_spaces = {
            agent: space_of(env.observation_spec()) for agent, env in self._envs.items()
        }
        self._action_spaces = {
            agent: space_of(env.action_spec()) for agent, env in self._envs.items()
        }

    def observation_space(self, agent):
        return self._observation_spaces[agent]

    def action_space(self, agent):
        return self._action_spaces[agent]

    def reset(self, seed=None, options=None):
        settings = {} if seed is None else {self._seed_setting: np.uint64(seed)}
        self._reset_world(settings)
        self.agents = list(self.possible_agents)
        timesteps = self._all(lambda agent: self._envs[agent].step({}))
        return self._observations(timesteps), {agent: {} for agent in self.agents}

    def step(self, actions):
        timesteps = self._all(
            lambda agent: self._envs[agent].step(
                action_for(self._envs[agent].action_spec(), actions[agent])
            )
        )
        ended = {agent: timestep.last() for agent, timestep in timesteps.items()}
        # dm_env says with the discount whether an end is the natural one.
        terminated = {
            agent: bool(ended[agent] and timestep.discount == 0)
            for agent, timestep in timesteps.items()
        }
        result = (
            self._observations(timesteps),
            {agent: float(timestep.reward or 0) for agent, timestep in timesteps.items()},
            terminated,
            {agent: bool(ended[agent] and not terminated[agent]) for agent in timesteps},
            {agent: {} for agent in timesteps},
        )
        self.agents = [agent for agent in self.agents if not ended[agent]]
        return result

    def close(self):
        for env in self._envs.values():
            env.close()
        self._envs = {}
        if self._connections:
            self._host.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=self._world))
        for connected in self._connections:
            connected.close()
        self._connections = []
        self._threads.shutdown()

    @property
    def _host(self):
        """The connection that has joined no world: it makes and destroys it."""
        return self._connections[-1]

    @staticmethod
    def _connect(address):
        return connection.create_secure_channel_and_connect(
            address, grpc.local_channel_credentials()
        )

    def _all(self, call):
        """Has every agent do something at once: in lock-step none is answered alone."""
        results = self._threads.map(call, self.agents)
        return dict(zip(self.agents, results, strict=True))

    def _observations(self, timesteps):
        return {
            agent: observation_in(self._observation_spaces[agent], timestep.observation)
            for agent, timestep in timesteps.items()
        }

    def _reset_world(self, settings):
        """Begins a sequence for all, who all ask for it: so none has to be told INTERRUPTED."""
        packed = {name: tensor_utils.pack_tensor(value) for name, value in settings.items()}
        request = dm_env_rpc_pb2.ResetWorldRequest(world_name=self._world, settings=packed)
        joined = self._connections[: len(self.possible_agents)]
        list(self._threads.map(lambda connected: connected.send(request), joined))
