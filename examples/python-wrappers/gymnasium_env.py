# SPDX-License-Identifier: Apache-2.0
"""A dm_env_rpc world as an environment of Gymnasium."""

import gymnasium
import grpc
import numpy as np
from dm_env_rpc.v1 import connection, dm_env_adaptor, dm_env_rpc_pb2, tensor_utils
from spaces_of_specs import action_for, observation_in, space_of


class RemoteEnv(gymnasium.Env):
    """One agent in a world of its own.

    Args:
        address: `host:port` of the server.
        create_settings: Settings of the world; those of Python's int become int64.
        join_settings: Settings of the agent.
        observations: Names of the observations to ask for; by default all but the reward.
        seed_setting: Setting of a reset of the world that takes the seed; None where there
            is none.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        address,
        create_settings=None,
        join_settings=None,
        observations=None,
        seed_setting="seed",
    ):
        self._connection = connection.create_secure_channel_and_connect(
            address, grpc.local_channel_credentials()
        )
        wanted = {} if observations is None else {"requested_observations": observations}
        self._env, self._world = dm_env_adaptor.create_and_join_world(
            self._connection, create_settings or {}, join_settings or {}, **wanted
        )
        self._seed_setting = seed_setting
        self.observation_space = space_of(self._env.observation_spec())
        self.action_space = space_of(self._env.action_spec())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None and self._seed_setting is not None:
            self._reset_world({self._seed_setting: np.uint64(seed)})
        timestep = self._env.reset()
        return observation_in(self.observation_space, timestep.observation), {}

    def step(self, action):
        timestep = self._env.step(action_for(self._env.action_spec(), action))
        ended = timestep.last()
        # dm_env says with the discount whether an end is the natural one.
        terminated = bool(ended and timestep.discount == 0)
        return (
            observation_in(self.observation_space, timestep.observation),
            float(timestep.reward or 0),
            terminated,
            bool(ended and not terminated),
            {},
        )

    def close(self):
        if self._connection is None:
            return
        self._env.close()
        self._connection.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=self._world))
        self._connection.close()
        self._connection = None

    def _reset_world(self, settings):
        packed = {name: tensor_utils.pack_tensor(value) for name, value in settings.items()}
        self._connection.send(
            dm_env_rpc_pb2.ResetWorldRequest(world_name=self._world, settings=packed)
        )
