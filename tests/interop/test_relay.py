# SPDX-License-Identifier: Apache-2.0
"""The official client playing with a program that accepts no connections, through the relay."""

import subprocess

import dm_env
import grpc
import numpy as np
import pytest
from dm_env_rpc.v1 import connection as dm_env_rpc_connection
from dm_env_rpc.v1 import dm_env_adaptor
from processes import ROOT, serving

TOKEN = "token-of-the-game"


@pytest.fixture
def program(tmp_path):
    """A program behind a relay: its process, and the address that agents dial."""
    programs = tmp_path / "programs"
    programs.write_text(f"game {TOKEN}\n")
    with serving("relay-server", "--programs", str(programs)) as relay:
        main = ROOT / "packages/relay/testing/programs/program.ts"
        process = subprocess.Popen(
            ["node", str(main), f"ws://{relay}", TOKEN], stdout=subprocess.PIPE, text=True
        )
        try:
            line = process.stdout.readline().strip()
            assert line.startswith("listening on http://"), line
            yield process, line.removeprefix("listening on http://")
        finally:
            process.kill()
            process.wait(timeout=30)


def test_plays_through_a_relay_as_on_a_port(program):
    _, address = program
    with dm_env_rpc_connection.create_secure_channel_and_connect(
        address, grpc.local_channel_credentials()
    ) as connection:
        env, world = dm_env_adaptor.create_and_join_world(
            connection,
            create_world_settings={},
            join_world_settings={"frame_bytes": np.int32(84 * 84 * 3)},
        )
        with env:
            assert env.reset().step_type == dm_env.StepType.FIRST
            for total in range(1, 501):
                timestep = env.step({"add": np.int32(1)})
                assert timestep.observation["total"] == total
                assert timestep.observation["frame"].shape == (84 * 84 * 3,)
        assert world


def test_learns_of_a_killed_program_as_of_a_dead_server(program):
    process, address = program
    with dm_env_rpc_connection.create_secure_channel_and_connect(
        address, grpc.local_channel_credentials()
    ) as connection:
        env, _ = dm_env_adaptor.create_and_join_world(
            connection, create_world_settings={}, join_world_settings={}
        )
        env.reset()
        process.kill()
        with pytest.raises(grpc.RpcError) as lost:
            env.step({"add": np.int32(1)})
        assert lost.value.code() == grpc.StatusCode.UNAVAILABLE
