# SPDX-License-Identifier: Apache-2.0
"""A plain gRPC client, which uses only the descriptors of proto/."""

import queue
import subprocess

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from processes import ROOT


@pytest.fixture(scope="session")
def messages(tmp_path_factory):
    image = tmp_path_factory.mktemp("descriptors") / "image.binpb"
    subprocess.run(["buf", "build", "-o", str(image)], cwd=ROOT, check=True)
    files = descriptor_pb2.FileDescriptorSet.FromString(image.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"dm_env_rpc.v1.{name}")
    )


class Stream:
    def __init__(self, address, messages):
        self._requests = queue.Queue()
        self._channel = grpc.insecure_channel(address)
        self.request_type = messages("EnvironmentRequest")
        process = self._channel.stream_stream(
            "/dm_env_rpc.v1.Environment/Process",
            request_serializer=self.request_type.SerializeToString,
            response_deserializer=messages("EnvironmentResponse").FromString,
        )
        self.responses = process(iter(self._requests.get, None))

    def send(self, **payload):
        self._requests.put(self.request_type(**payload))
        return next(self.responses)

    def close(self):
        self._requests.put(None)
        rest = list(self.responses)
        self._channel.close()
        return rest


def test_creates_joins_steps_leaves_and_destroys(gridworld_address, messages):
    stream = Stream(gridworld_address, messages)
    world = stream.send(create_world={"settings": {"seed": {"uint64s": {"array": [2**63 + 1]}}}})
    name = world.create_world.world_name
    assert name
    specs = stream.send(join_world={"world_name": name}).join_world.specs
    actions = {spec.name: uid for uid, spec in specs.actions.items()}
    observations = {spec.name: uid for uid, spec in specs.observations.items()}
    wanted = [observations["step"], observations["reward"], observations["rgb"]]
    first = stream.send(step={"requested_observations": wanted}).step
    assert first.state == 1
    assert list(first.observations[observations["step"]].int32s.array) == [0]
    move = {actions["move"]: {"int8s": {"array": b"\x01"}}}
    second = stream.send(step={"actions": move, "requested_observations": wanted}).step
    assert list(second.observations[observations["step"]].int32s.array) == [1]
    assert len(second.observations[observations["rgb"]].uint8s.array) == 64 * 64 * 3
    out_of_range = {actions["move"]: {"int8s": {"array": b"\x06"}}}
    error = stream.send(step={"actions": out_of_range}).error
    assert error.code == 3 and "move" in error.message
    assert stream.send(leave_world={}).WhichOneof("payload") == "leave_world"
    destroyed = stream.send(destroy_world={"world_name": name})
    assert destroyed.WhichOneof("payload") == "destroy_world"
    assert stream.close() == []


def test_a_half_close_is_answered_in_full(gridworld_address, messages):
    stream = Stream(gridworld_address, messages)
    name = stream.send(create_world={}).create_world.world_name
    stream.send(join_world={"world_name": name})
    for _ in range(10):
        stream._requests.put(stream.request_type(step={}))
    answers = stream.close()
    assert [answer.step.state for answer in answers] == [1] * 10
    assert stream.responses.code() == grpc.StatusCode.OK
