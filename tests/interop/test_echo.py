# SPDX-License-Identifier: Apache-2.0
"""Every dtype through our server and back, bit for bit."""

import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_utils
from google.protobuf import any_pb2, struct_pb2
from joining import connect, create_world, join_world

NUMPY_TYPES = {
    name: np.dtype(name)
    for name in (
        "float32", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool",
    )
}  # fmt: skip


def bits(dtype, *words):
    """Makes floats from their bits, so that NaNs keep their payload."""
    return np.array(words, {"float32": np.uint32, "float64": np.uint64}[dtype]).view(dtype)


SPECIAL = {
    "float32": bits("float32", 0x7FC00001, 0xFFC12345, 0x7F800000, 0x80000000, 1, 0x7F7FFFFF),
    "float64": bits(
        "float64",
        0x7FF8000000000001, 0xFFF8000000ABCDEF, 0xFFF0000000000000,
        0x8000000000000000, 1, 0x7FEFFFFFFFFFFFFF,
    ),
    "int8": np.array([-128, -1, 0, 1, 2, 127], np.int8),
    "int32": np.array([-(2**31), -1, 0, 1, 2, 2**31 - 1], np.int32),
    "int64": np.array([-(2**63), -(2**53) - 1, -1, 0, 2**53 + 1, 2**63 - 1], np.int64),
    "uint8": np.array([0, 1, 2, 127, 128, 255], np.uint8),
    "uint32": np.array([0, 1, 2, 2**31, 2**32 - 2, 2**32 - 1], np.uint32),
    "uint64": np.array([0, 1, 2**53 + 1, 2**63, 2**64 - 2, 2**64 - 1], np.uint64),
    "bool": np.array([False, True, True, False, True, False]),
    "string": np.array(["", "a", "ß", "\x00", "日本\U0001f600", "z" * 300]),
}  # fmt: skip


class Agent:
    """Steps an echo world with one action and returns the observation of that name."""

    def __init__(self, connection, world):
        self._connection = connection
        specs = join_world(connection, world, {})
        self.actions = {spec.name: uid for uid, spec in specs.actions.items()}
        self.observations = {spec.name: uid for uid, spec in specs.observations.items()}
        self.send({}, [])

    def send(self, actions, requested):
        return self._connection.send(
            dm_env_rpc_pb2.StepRequest(actions=actions, requested_observations=requested)
        )

    def echo(self, name, tensor):
        uid = self.observations[name]
        return self.send({self.actions[name]: tensor}, [uid]).observations[uid]


@pytest.fixture(scope="module")
def agent(worlds):
    with connect(worlds["echo"]) as connection:
        yield Agent(connection, create_world(connection, {}))


def same(sent, received):
    """Returns True if two arrays have the same dtype, shape and bits."""
    sent, received = np.asarray(sent), np.asarray(received)
    if sent.dtype.kind == "U":
        return sent.shape == received.shape and sent.tolist() == received.tolist()
    return (
        sent.dtype == received.dtype
        and sent.shape == received.shape
        and sent.tobytes() == received.tobytes()
    )


@pytest.mark.parametrize("dtype", SPECIAL)
def test_behaviour_13_scalars_come_back_bit_for_bit(agent, dtype):
    for value in SPECIAL[dtype]:
        # A zero-dimensional array: numpy's scalars would turn a NaN into a Python float.
        tensor = tensor_utils.pack_tensor(np.array(value))
        echoed = tensor_utils.unpack_tensor(agent.echo(f"scalar.{dtype}", tensor))
        assert same(np.array(value), echoed)


@pytest.mark.parametrize("dtype", SPECIAL)
def test_behaviour_10_matrices_come_back_row_major(agent, dtype):
    value = SPECIAL[dtype].reshape(2, 3)
    tensor = tensor_utils.pack_tensor(value)
    echoed = agent.echo(f"matrix.{dtype}", tensor)
    assert list(echoed.shape) == [2, 3]
    assert same(value, tensor_utils.unpack_tensor(echoed))


@pytest.mark.parametrize("dtype", SPECIAL)
def test_behaviour_11_variable_lengths_come_back_with_their_length(agent, dtype):
    for rows in (1, 3):
        value = SPECIAL[dtype][: rows * 2].reshape(rows, 2)
        tensor = tensor_utils.pack_tensor(value)
        assert same(value, tensor_utils.unpack_tensor(agent.echo(f"rows.{dtype}", tensor)))
        tensor.shape[0] = -1
        assert same(value, tensor_utils.unpack_tensor(agent.echo(f"rows.{dtype}", tensor)))


@pytest.mark.parametrize("dtype", SPECIAL)
def test_behaviour_12_one_element_fills_the_shape(agent, dtype):
    value = SPECIAL[dtype][1]
    tensor = tensor_utils.pack_tensor(np.array(value))
    tensor.shape[:] = [2, 3]
    full = tensor_utils.unpack_tensor(agent.echo(f"matrix.{dtype}", tensor))
    assert same(np.full((2, 3), value), full)
    tensor.shape[:] = [-1, 2]
    pair = tensor_utils.unpack_tensor(agent.echo(f"rows.{dtype}", tensor))
    assert same(np.full((1, 2), value), pair)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_behaviour_13_empty_tensors_stay_empty(agent, dtype):
    value = np.zeros((0, 3), dtype)
    echoed = agent.echo(f"empty.{dtype}", tensor_utils.pack_tensor(value))
    assert list(echoed.shape) == [0, 3]
    assert same(value, tensor_utils.unpack_tensor(echoed))
    none = agent.echo(f"rows.{dtype}", tensor_utils.pack_tensor(np.zeros((0, 2), dtype)))
    assert list(none.shape) == [0, 2]


def test_behaviour_13_empty_strings_and_protos_stay_empty(agent):
    for dtype, payload in (("string", "strings"), ("proto", "protos")):
        tensor = dm_env_rpc_pb2.Tensor(shape=[0, 3])
        getattr(tensor, payload).SetInParent()
        echoed = agent.echo(f"empty.{dtype}", tensor)
        assert echoed.WhichOneof("payload") == payload
        assert list(echoed.shape) == [0, 3]


def test_behaviour_19_a_struct_in_an_any_comes_back(agent):
    struct = struct_pb2.Struct()
    struct.update({"name": "ada", "nested": {"list": [1, None, True, "x"]}, "nan": 0.5})
    packed = any_pb2.Any()
    packed.Pack(struct)
    tensor = dm_env_rpc_pb2.Tensor()
    tensor.protos.array.append(packed)
    echoed = agent.echo("scalar.proto", tensor)
    back = struct_pb2.Struct()
    assert echoed.protos.array[0].Unpack(back)
    assert back == struct
    more = [any_pb2.Any(type_url=f"x/{n}", value=bytes([n])) for n in range(5)]
    tensor.protos.array.extend(more)
    tensor.shape[:] = [2, 3]
    assert list(agent.echo("matrix.proto", tensor).protos.array) == list(tensor.protos.array)
