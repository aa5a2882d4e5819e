# SPDX-License-Identifier: Apache-2.0
"""Specs as spaces, and values as tensors: nothing is cast silently."""

import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_spec_utils, tensor_utils
from gymnasium import spaces

from dm_env_rpc_gym import ActionError, SpecError
from dm_env_rpc_gym._tensors import action_space_of, observation_space_of, pack_settings

Type = dm_env_rpc_pb2.DataType


def spec_of(dtype, shape=(), low=None, high=None):
    spec = dm_env_rpc_pb2.TensorSpec(name="it", dtype=dtype, shape=shape)
    packer = tensor_utils.get_packer(tensor_utils.data_type_to_np_type(dtype))
    for field, bound in (("min", low), ("max", high)):
        if bound is not None:
            packer.pack(getattr(spec, field), np.asarray(bound, packer.np_type))
    return spec


@pytest.mark.parametrize(
    ("spec", "space"),
    [
        (spec_of(Type.INT8, (), 0, 5), spaces.Discrete(6)),
        (spec_of(Type.INT32, (), -1, 1), spaces.Discrete(3, start=-1)),
        (spec_of(Type.UINT64, (), 1, 2**63), spaces.Box(1, 2**63, (), np.uint64)),
        (spec_of(Type.INT8, (), None, 5), spaces.Discrete(134, start=-128)),
        (
            spec_of(Type.INT8, (2,), [0, 10], [5, 20]),
            spaces.MultiDiscrete([6, 11], dtype=np.int8, start=np.array([0, 10])),
        ),
        (spec_of(Type.FLOAT, (2,), -1, 1), spaces.Box(-1, 1, (2,), np.float32)),
        (spec_of(Type.DOUBLE), spaces.Box(-np.inf, np.inf, (), np.float64)),
        (spec_of(Type.UINT8, (2, 3)), spaces.Box(0, 255, (2, 3), np.uint8)),
        (spec_of(Type.BOOL), spaces.Discrete(2)),
        (spec_of(Type.BOOL, (3,)), spaces.MultiBinary([3])),
    ],
)
def test_an_action_has_the_space_of_its_spec(spec, space):
    assert action_space_of(spec).space == space


@pytest.mark.parametrize(
    ("spec", "space"),
    [
        (spec_of(Type.INT32, (), 0, 20), spaces.Discrete(21)),
        (spec_of(Type.INT32, (), 1, 20), spaces.Box(1, 20, (), np.int32)),
        (spec_of(Type.INT32, (2,), 0, 20), spaces.Box(0, 20, (2,), np.int32)),
        (spec_of(Type.INT32, (), 0), spaces.Box(0, 2**31 - 1, (), np.int32)),
    ],
)
def test_only_integers_from_0_to_a_declared_maximum_are_discrete_observations(spec, space):
    assert observation_space_of(spec).space == space


def test_bounds_are_those_that_the_official_client_reads():
    spec = spec_of(Type.FLOAT, (3,), [-1, -2, -3], [1, 2, 3])
    bounds = tensor_spec_utils.bounds(spec)
    space = observation_space_of(spec).space
    np.testing.assert_array_equal(space.low, bounds.min)
    np.testing.assert_array_equal(space.high, bounds.max)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (spec_of(Type.INT8), 257),
        (spec_of(Type.INT8), -129),
        (spec_of(Type.INT8), 1.9),
        (spec_of(Type.INT8), 0.99),
        (spec_of(Type.INT8), 1.0),
        (spec_of(Type.INT8, (), 0, 5), 6),
        (spec_of(Type.UINT8), -1),
        (spec_of(Type.UINT64), np.int64(-1)),
        (spec_of(Type.INT64), 2**63),
        (spec_of(Type.INT8), "1"),
        (spec_of(Type.INT8), None),
        (spec_of(Type.INT8), [1]),
        (spec_of(Type.INT8, (2,)), [1, 2, 3]),
        (spec_of(Type.FLOAT), 1e300),
        (spec_of(Type.FLOAT, (), -1, 1), 1.5),
        (spec_of(Type.FLOAT, (), -1, 1), np.nan),
        (spec_of(Type.BOOL), 2),
        (spec_of(Type.BOOL), 1.0),
        (spec_of(Type.STRING), 3),
        (spec_of(Type.STRING, (2,)), ["a"]),
        (spec_of(Type.INT32, (-1, 2)), [[1, 2, 3]]),
    ],
)
def test_an_action_that_does_not_fit_is_refused(spec, value):
    with pytest.raises(ActionError, match=r"^INVALID_ARGUMENT: action it .*expected .*received"):
        action_space_of(spec).encode(value)


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (spec_of(Type.INT8), np.int64(-128), np.int8(-128)),
        (spec_of(Type.UINT64), 2**64 - 1, np.uint64(2**64 - 1)),
        (spec_of(Type.FLOAT, (), -1, 1), np.float64(0.1), np.float32(0.1)),
        (spec_of(Type.FLOAT), 3, np.float32(3)),
        (spec_of(Type.DOUBLE), -np.inf, -np.inf),
        (spec_of(Type.BOOL), 1, True),
        (spec_of(Type.BOOL, (2,)), np.array([0, 1], np.int8), [False, True]),
        (spec_of(Type.STRING), "ß", "ß"),
        (spec_of(Type.STRING, (2,)), ("a", "b"), ["a", "b"]),
        (spec_of(Type.INT32, (-1, 2)), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (spec_of(Type.INT32, (2, -1)), [[1, 2], [3, 4], [5, 6]], [[1, 3, 5], [2, 4, 6]]),
        (spec_of(Type.STRING, (-1,)), (), []),
    ],
)
def test_an_action_that_fits_arrives_exactly(spec, value, expected):
    sent = action_space_of(spec).encode(value).SerializeToString()
    tensor = dm_env_rpc_pb2.Tensor.FromString(sent)
    wanted = tensor_utils.data_type_to_np_type(spec.dtype)
    assert tensor_utils.get_tensor_type(tensor) == wanted
    unpacked = tensor_utils.unpack_tensor(tensor)
    np.testing.assert_array_equal(unpacked, np.asarray(expected, wanted))


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@pytest.mark.parametrize("dtype", sorted(set(Type.values()) - {Type.INVALID_DATA_TYPE, Type.PROTO}))
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (-1,), (-1, 2), (2, -1)])
def test_samples_survive_the_way_to_a_tensor_and_back(dtype, shape):
    leaf = action_space_of(spec_of(dtype, shape))
    leaf.space.seed(1)
    for _ in range(5):
        value = leaf.space.sample()
        returned = leaf.decode(leaf.encode(value))
        assert returned in leaf.space
        np.testing.assert_array_equal(np.asarray(returned), np.asarray(value))


def test_protocol_buffers_have_no_space():
    with pytest.raises(SpecError, match="expected numbers, booleans or strings, received PROTO"):
        observation_space_of(spec_of(Type.PROTO))


def test_nested_settings_get_names_with_dots():
    packed = pack_settings({"map": {"rows": np.array([1, 2], np.int32)}, "seed": 2**64 - 1})
    assert sorted(packed) == ["map.rows", "seed"]
    assert tensor_utils.unpack_tensor(packed["seed"]) == 2**64 - 1
