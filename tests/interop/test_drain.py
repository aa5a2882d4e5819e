# SPDX-License-Identifier: Apache-2.0
"""A server that drains, as the official client and a plain stub with requests in flight see it."""

import contextlib
import queue
import signal

import grpc
import pytest
from dm_env_rpc.v1 import connection, dm_env_rpc_pb2, dm_env_rpc_pb2_grpc, error
from processes import ROOT, listening

IN_FLIGHT = 400


@pytest.fixture
def server():
    program = ROOT / "apps/gridworld-server/dist/main.js"
    command = [program, "--port", "0", "--grace-ms", "120000"]
    with listening(command) as (process, address):
        yield process, address


def test_the_official_client_learns_that_the_server_shuts_down(server):
    process, address = server
    with grpc.insecure_channel(address) as channel:
        agent = connection.Connection(channel)
        created = agent.send(dm_env_rpc_pb2.CreateWorldRequest())
        agent.send(dm_env_rpc_pb2.JoinWorldRequest(world_name=created.world_name))
        agent.send(dm_env_rpc_pb2.StepRequest())
        process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as ended:
            while True:
                # A step after the end may still be answered: with an error.
                with contextlib.suppress(error.DmEnvRpcError):
                    agent.send(dm_env_rpc_pb2.StepRequest())
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "the server is shutting down" in ended.value.details()
        agent.close()


def test_each_of_hundreds_of_requests_is_answered_or_the_status_is_unavailable(server):
    process, address = server
    requests = queue.Queue()
    step = dm_env_rpc_pb2.EnvironmentRequest(step=dm_env_rpc_pb2.StepRequest())
    with grpc.insecure_channel(address) as channel:
        stub = dm_env_rpc_pb2_grpc.EnvironmentStub(channel)
        responses = stub.Process(iter(requests.get, None))
        requests.put(
            dm_env_rpc_pb2.EnvironmentRequest(create_world=dm_env_rpc_pb2.CreateWorldRequest())
        )
        name = next(responses).create_world.world_name
        join = dm_env_rpc_pb2.JoinWorldRequest(world_name=name)
        requests.put(dm_env_rpc_pb2.EnvironmentRequest(join_world=join))
        next(responses)
        for _ in range(IN_FLIGHT):
            requests.put(step)
        sent, answered = IN_FLIGHT, 0
        with pytest.raises(grpc.RpcError) as ended:
            for _ in responses:
                answered += 1
                if answered == IN_FLIGHT:
                    process.send_signal(signal.SIGTERM)
                requests.put(step)
                sent += 1
        requests.put(None)
    assert IN_FLIGHT <= answered < sent
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "the server is shutting down" in ended.value.details()
