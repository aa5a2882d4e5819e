# SPDX-License-Identifier: Apache-2.0
"""The official asynchronous connection."""

import asyncio

import grpc
import pytest
from dm_env_rpc.v1 import async_connection, dm_env_rpc_pb2, error, spec_manager
from joining import packed


def test_two_asynchronous_agents_play_in_lock_step(gridworld_address):
    asyncio.run(play(gridworld_address))


async def play(address):
    connections = [
        await async_connection.create_secure_async_channel_and_connect(
            address, grpc.local_channel_credentials()
        )
        for _ in range(2)
    ]
    first = connections[0]
    with pytest.raises(error.DmEnvRpcError):
        await first.send(dm_env_rpc_pb2.StepRequest())
    settings = packed({"min_agents": 2, "max_steps": 5})
    created = await first.send(dm_env_rpc_pb2.CreateWorldRequest(settings=settings))
    world = created.world_name
    managers = []
    for connection in connections:
        joined = await connection.send(dm_env_rpc_pb2.JoinWorldRequest(world_name=world))
        managers.append(
            (
                spec_manager.SpecManager(joined.specs.actions),
                spec_manager.SpecManager(joined.specs.observations),
            )
        )

    async def step(agent, **actions):
        connection, (acting, observing) = connections[agent], managers[agent]
        response = await connection.send(
            dm_env_rpc_pb2.StepRequest(
                actions=acting.pack(actions),
                requested_observations=[observing.name_to_uid("step")],
            )
        )
        return response.state, observing.unpack(response.observations)["step"]

    for tick in range(5):
        results = await asyncio.gather(step(0, move=1), step(1, move=2))
        assert results == [(dm_env_rpc_pb2.RUNNING, tick)] * 2
    results = await asyncio.gather(step(1, move=0), step(0, move=0))
    assert results == [(dm_env_rpc_pb2.INTERRUPTED, 5)] * 2
    for connection in connections:
        await connection.send(dm_env_rpc_pb2.LeaveWorldRequest())
    await first.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=world))
    await asyncio.gather(*[connection.close() for connection in connections])
