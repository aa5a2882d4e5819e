# SPDX-License-Identifier: Apache-2.0
"""The official client, dm_env_rpc 1.1.6, playing on our server."""

import dm_env
import numpy as np
import pytest
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor, error


@pytest.fixture
def connection(gridworld_address):
    with dm_env_rpc_connection.create_secure_channel_and_connect(
        gridworld_address, grpc_channel_credentials()
    ) as connected:
        yield connected


def grpc_channel_credentials():
    import grpc

    return grpc.local_channel_credentials()


def test_the_dm_env_adaptor_plays_sequences(connection):
    env, world = dm_env_adaptor.create_and_join_world(
        connection,
        create_world_settings={"seed": np.uint64(3), "max_steps": np.int32(5)},
        join_world_settings={"name": "ada"},
    )
    with env:
        timestep = env.reset()
        assert timestep.step_type == dm_env.StepType.FIRST
        for _ in range(3):
            steps = 0
            while not timestep.last():
                timestep = env.step({"move": np.int8(1)})
                steps += 1
                for name, spec in env.observation_spec().items():
                    spec.validate(timestep.observation[name])
            assert steps == 5
            assert timestep.discount == 1.0
            timestep = env.step({"move": np.int8(0)})
            assert timestep.first()
    assert world


def test_errors_are_told_and_change_nothing(connection):
    with pytest.raises(error.DmEnvRpcError, match="nowhere"):
        dm_env_adaptor.join_world(connection, "nowhere", {})
    with pytest.raises(error.DmEnvRpcError, match="hight"):
        dm_env_adaptor.create_world(connection, {"hight": np.int32(9)})
    assert dm_env_adaptor.create_world(connection, {"height": np.int32(9)})
