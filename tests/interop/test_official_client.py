# SPDX-License-Identifier: Apache-2.0
"""The official client playing on our server."""

import dm_env
import grpc
import numpy as np
import pytest
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor, error
from dm_env_rpc.v1.extensions import properties
from processes import ROOT, listening


@pytest.fixture
def connection(gridworld_address):
    with dm_env_rpc_connection.create_secure_channel_and_connect(
        gridworld_address, grpc.local_channel_credentials()
    ) as connected:
        yield connected


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


def test_errors_name_their_cause_and_change_nothing(connection):
    with pytest.raises(error.DmEnvRpcError, match="nowhere"):
        dm_env_adaptor.join_world(connection, "nowhere", {})
    with pytest.raises(error.DmEnvRpcError, match="hight"):
        dm_env_adaptor.create_world(connection, {"hight": np.int32(9)})
    assert dm_env_adaptor.create_world(connection, {"height": np.int32(9)})


def walk(extension, key=""):
    """Returns every property below a key, by its key."""
    for name, spec in extension.specs(key).items():
        yield name, spec
        if spec.listable:
            yield from walk(extension, name)


def test_the_properties_extension_reads_lists_and_refuses(connection):
    extension = properties.PropertiesExtension(connection)
    assert extension["server.name"] == "@dm-env-rpc/server"
    with pytest.raises(KeyError):
        extension["board"]
    env, world = dm_env_adaptor.create_and_join_world(
        connection, create_world_settings={"seed": 5, "layout": "a.\n.1"}, join_world_settings={}
    )
    with env:
        env.reset()
        assert extension["board"] == "a.\n.1"
        assert extension["seed"] == 5
        assert extension["food_left"] == 1
        assert world in extension["worlds.names"]
        specs = dict(walk(extension))
        assert specs["world"].listable and specs["world"].spec is None
        assert specs["types.gridworld.settings.create.seed"].spec.dtype == np.uint64
        with pytest.raises(PermissionError):
            extension["board"] = "changed"
        for key, spec in specs.items():
            if spec.readable and key.startswith("world"):
                extension.read(key)


def test_the_adaptor_plays_over_a_unix_domain_socket(tmp_path):
    program = ROOT / "apps/gridworld-server/dist/main.js"
    with (
        listening([program, "--host", f"unix:{tmp_path}/env.sock"]) as (_, address),
        dm_env_rpc_connection.create_secure_channel_and_connect(
            address, grpc.local_channel_credentials(grpc.LocalConnectionType.UDS), timeout=60
        ) as connected,
    ):
        env, _ = dm_env_adaptor.create_and_join_world(connected, {"seed": 1}, {})
        with env:
            assert env.reset().first()
            assert env.step({"move": np.int8(1)}).mid()
