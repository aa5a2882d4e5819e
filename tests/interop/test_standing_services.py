# SPDX-License-Identifier: Apache-2.0
"""The services beside Environment: health and reflection, called by Python's clients and buf curl."""

import json
import signal
import subprocess

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from processes import ROOT


@pytest.fixture
def channel(gridworld_address):
    with grpc.insecure_channel(gridworld_address) as channel:
        yield channel


@pytest.mark.parametrize("service", ["", "dm_env_rpc.v1.Environment", "gridworld"])
def test_health_checking_sees_what_is_served(channel, service):
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=service)
    assert health.Check(request).status == health_pb2.HealthCheckResponse.SERVING


def test_health_checking_refuses_an_unknown_service(channel):
    health = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as refused:
        health.Check(health_pb2.HealthCheckRequest(service="chess"))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    watch = health.Watch(health_pb2.HealthCheckRequest(service="chess"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_health_checking_watches_a_server_close():
    program = ROOT / "apps/gridworld-server/dist/main.js"
    with subprocess.Popen(
        ["node", str(program), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        address = server.stdout.readline().strip().removeprefix("listening on http://")
        with grpc.insecure_channel(address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            server.send_signal(signal.SIGTERM)
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert list(watch) == []
            assert watch.code() == grpc.StatusCode.OK
        assert server.wait(timeout=30) == 0


def test_reflection_describes_the_service_well_enough_to_call_it(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) == {
        "dm_env_rpc.v1.Environment",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "spectator.v1.SpectatorService",
    }
    pool = descriptor_pool.DescriptorPool(database)
    service = pool.FindServiceByName("dm_env_rpc.v1.Environment")
    method = service.FindMethodByName("Process")
    request_type = message_factory.GetMessageClass(method.input_type)
    response_type = message_factory.GetMessageClass(method.output_type)
    process = channel.stream_stream(
        f"/{service.full_name}/{method.name}",
        request_serializer=request_type.SerializeToString,
        response_deserializer=response_type.FromString,
    )
    (response,) = process(iter([request_type(create_world={})]))
    assert response.create_world.world_name.startswith("gridworld")
    pool.FindMessageTypeByName("dm_env_rpc.v1.extensions.properties.PropertyRequest")


@pytest.mark.parametrize("protocol", ["grpc", "grpcweb", "connect"])
def test_buf_curl_calls_by_reflection(gridworld_address, protocol):
    def curl(path, *requests):
        called = subprocess.run(
            ["buf", "curl", "--protocol", protocol, "--http2-prior-knowledge"]
            + ["--data", "\n".join(json.dumps(request) for request in requests)]
            + [f"http://{gridworld_address}/{path}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert called.returncode == 0, called.stderr
        decoder, answers, text = json.JSONDecoder(), [], called.stdout.strip()
        while text:
            answer, end = decoder.raw_decode(text)
            answers.append(answer)
            text = text[end:].strip()
        return answers

    assert curl("grpc.health.v1.Health/Check", {"service": "gridworld"}) == [
        {"status": "SERVING"}
    ]
    created, missing = curl(
        "dm_env_rpc.v1.Environment/Process",
        {"createWorld": {}},
        {"joinWorld": {"worldName": "atlantis"}},
    )
    assert created["createWorld"]["worldName"].startswith("gridworld")
    assert missing["error"]["code"] == 5
    assert "atlantis" in missing["error"]["message"]
