# SPDX-License-Identifier: Apache-2.0
"""Peers of 1.0.x and unusual encodings: hand-made requests that today's package cannot write."""

import struct

import pytest
from dm_env_rpc.v1 import dm_env_rpc_pb2
from hand_made import ByteStream, block, entry, fields, float32, number, varint

CREATE, JOIN, STEP, READ, WRITE, LIST, ERROR = 1, 2, 3, 8, 9, 10, 16


@pytest.fixture
def garden(worlds):
    with ByteStream(worlds["garden"]) as stream:
        yield stream


def payload(response):
    """Returns the number and bytes of a response's only field."""
    ((field, value),) = fields(response)
    return field, value


def properties_of(response):
    """Returns the map of a property response, by key."""
    entries = [dict(fields(value)) for field, value in fields(response) if field == 1]
    return {item[1].decode(): item[2] for item in entries}


def test_behaviour_45_several_keys_are_read_at_once(garden):
    request = block(READ, block(1, "shed.label"), block(1, "shed.shelf.count"))
    kind, value = payload(garden.send(request))
    assert kind == READ
    read = properties_of(value)
    assert dm_env_rpc_pb2.Tensor.FromString(read["shed.label"]).strings.array == ["spade"]
    assert dm_env_rpc_pb2.Tensor.FromString(read["shed.shelf.count"]).int32s.array == [4]


def test_behaviour_45_the_empty_key_lists_the_root_and_a_tree_can_be_walked(garden):
    seen = {}

    def walk(key):
        kind, value = payload(garden.send(block(LIST, block(1, key))))
        assert kind == LIST
        for name, listed in properties_of(value).items():
            seen[name] = dict(fields(listed))
            if seen[name].get(3):
                walk(name)

    walk("")
    assert {"shed", "shed.label", "shed.shelf", "shed.shelf.count", "shed.secret"} <= set(seen)
    assert "bed" not in seen, "this connection has joined no world"
    label, secret = seen["shed.label"], seen["shed.secret"]
    assert label[1] == 1 and label[2] == 1 and 3 not in label
    assert 1 not in secret and secret[2] == 1
    spec = dm_env_rpc_pb2.TensorSpec.FromString(seen["shed.shelf.count"][4])
    assert spec.dtype == dm_env_rpc_pb2.INT32 and spec.name == "shed.shelf.count"


def test_behaviour_45_a_write_is_read_back(garden):
    spades = block(WRITE, entry(1, "shed.label", block(10, block(1, "rake"))))
    assert payload(garden.send(spades)) == (WRITE, b"")
    kind, value = payload(garden.send(block(READ, block(1, "shed.label"))))
    tensor = dm_env_rpc_pb2.Tensor.FromString(properties_of(value)["shed.label"])
    assert tensor.strings.array == ["rake"]
    garden.send(block(WRITE, entry(1, "shed.label", block(10, block(1, "spade")))))


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (block(READ, block(1, "shed.nothing")), 5),
        (block(READ, block(1, "shed.label"), block(1, "shed.nothing")), 5),
        (block(LIST, block(1, "nothing")), 5),
        (block(READ, block(1, "shed.secret")), 7),
        (block(LIST, block(1, "shed.label")), 7),
        (block(WRITE, entry(1, "shed.shelf.count", block(4, block(1, varint(3))))), 7),
        (block(WRITE, entry(1, "shed.label", block(4, block(1, varint(3))))), 3),
        (block(WRITE, entry(1, "nothing", block(4, block(1, varint(3))))), 5),
    ],
)
def test_behaviour_46_refusals_have_the_codes_of_the_extension(garden, request_bytes, code):
    kind, value = payload(garden.send(request_bytes))
    assert kind == ERROR
    assert dict(fields(value))[1] == code


def test_behaviour_46_after_a_join_the_world_adds_its_properties(garden):
    assert payload(garden.send(block(JOIN, block(1, "garden-1"))))[0] == JOIN
    kind, value = payload(garden.send(block(READ, block(1, "bed.height"))))
    assert kind == READ
    assert dm_env_rpc_pb2.Tensor.FromString(properties_of(value)["bed.height"]).floats.array == [0]


def test_behaviour_16_bounds_go_out_as_arrays_and_never_as_the_scalars_of_1_0(garden):
    kind, value = payload(garden.send(block(JOIN, block(1, "garden-1"))))
    assert kind == JOIN
    specs = dict(fields(dict(fields(value))[1]))
    action = dict(fields(dict(fields(specs[1]))[2]))
    assert [field for field, _ in fields(action[4])] == [9]
    assert [field for field, _ in fields(action[5])] == [9]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_behaviour_14_unpacked_and_chunked_elements_are_one_tensor(worlds, count):
    values = [2**40, -1, 0, 7, -(2**62), 3]
    packed = [varint(value) for value in values]
    encodings = {
        "one chunk": block(1, *packed),
        "unpacked": b"".join(number(1, value) for value in values),
        "chunks": b"".join(
            block(1, *packed[at : at + count]) for at in range(0, len(packed), count)
        ),
        "mixed": number(1, values[0]) + block(1, *packed[1:5]) + number(1, values[5]),
    }
    with ByteStream(worlds["echo"]) as stream:
        world = dict(fields(payload(stream.send(block(CREATE)))[1]))[1]
        _, joined = payload(stream.send(block(JOIN, block(1, world))))
        specs = dm_env_rpc_pb2.JoinWorldResponse.FromString(joined).specs
        (uid,) = [uid for uid, spec in specs.actions.items() if spec.name == "matrix.int64"]
        (see,) = [uid for uid, spec in specs.observations.items() if spec.name == "matrix.int64"]
        stream.send(block(STEP))
        for name, array in encodings.items():
            for tensor in (block(5, array) + shape(2, 3), shape(2, 3) + block(5, array)):
                kind, value = payload(stream.send(block(STEP, entry(1, uid, tensor), number(2, see))))
                assert kind == STEP, (name, value)
                seen = dm_env_rpc_pb2.StepResponse.FromString(value).observations[see]
                assert list(seen.int64s.array) == values, name


def shape(*sizes):
    """Encodes a shape with a field for each dimension, as old writers do."""
    return b"".join(number(15, size) for size in sizes)


def test_behaviour_9_undecodable_bytes_are_an_error_and_the_stream_stays_open(garden):
    for nonsense in (b"\xff", block(3, b"\x08"), b"\x0a\x05x", struct.pack("<I", 7)):
        kind, value = payload(garden.send(nonsense))
        assert kind == ERROR and dict(fields(value))[1] == 3, nonsense
    assert payload(garden.send(block(LIST, block(1, ""))))[0] == LIST


def test_behaviour_9_an_unknown_field_is_not_a_payload(garden):
    kind, value = payload(garden.send(float32(99, 1.5)))
    assert kind == ERROR and dict(fields(value))[1] == 3
