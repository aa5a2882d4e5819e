# SPDX-License-Identifier: Apache-2.0
"""Arrays that are read and written as bytes are those of the official client, bit for bit."""

import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_utils

from dm_env_rpc_gym import _wire

ARRAYS = [
    np.array(1.5, np.float32),
    np.array([[0.1, -np.inf, np.nan], [0, -0.0, 3]], np.float64),
    np.arange(-3, 3, dtype=np.int8),
    np.arange(250, 256, dtype=np.uint8).reshape(2, 3),
    np.array([0, 1, 127, 128, -1, 2**31 - 1, -(2**31)], np.int32),
    np.array([0, 1, 127, 128, -1, 2**63 - 1, -(2**63)], np.int64),
    np.array([[0, 127], [128, 2**32 - 1]], np.uint32),
    np.array([[0, 127], [128, 2**64 - 1]], np.uint64),
    np.arange(100, dtype=np.int64),
    np.array([True, False, True]),
    np.array(True),
    np.empty((0, 3), np.float32),
    np.empty((2, 0), np.int32),
    np.array(["a", "bc", ""]),
    np.array("text"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_every_array_is_packed_and_unpacked_as_the_official_client_does(array):
    theirs = tensor_utils.pack_tensor(array)
    ours = _wire.pack(array)
    assert dm_env_rpc_pb2.Tensor.FromString(ours.SerializeToString()) == theirs
    received = _wire.unpack(_wire.Tensor.FromString(theirs.SerializeToString()))
    expected = tensor_utils.unpack_tensor(theirs)
    np.testing.assert_array_equal(received, expected)
    assert np.asarray(received).dtype == np.asarray(expected).dtype


def test_one_element_is_broadcast():
    tensor = dm_env_rpc_pb2.Tensor(shape=[2, 3])
    tensor.floats.array.append(4)
    received = _wire.unpack(_wire.Tensor.FromString(tensor.SerializeToString()))
    np.testing.assert_array_equal(received, np.full((2, 3), 4, np.float32))


def test_arrays_in_chunks_and_unpacked_are_read_whole():
    def response(tensor):
        # EnvironmentResponse.step.observations[1]: three messages around the tensor.
        entry = b"\x08\x01\x12" + bytes([len(tensor)]) + tensor
        step = b"\x12" + bytes([len(entry)]) + entry
        field = dm_env_rpc_pb2.EnvironmentResponse.DESCRIPTOR.fields_by_name["step"].number
        return bytes([field << 3 | 2, len(step)]) + step

    one = tensor_utils.pack_tensor(np.array([1, 2], np.int32)).SerializeToString()
    two = tensor_utils.pack_tensor(np.array([3], np.int32)).SerializeToString()
    unpacked = dm_env_rpc_pb2.Tensor(shape=[3]).SerializeToString()
    number = dm_env_rpc_pb2.Tensor.DESCRIPTOR.fields_by_name["int32s"].number
    unpacked += bytes([number << 3 | 2, 6, 8, 1, 8, 2, 8, 3])
    shape = dm_env_rpc_pb2.Tensor(shape=[3]).SerializeToString()
    one, two = (part[: part.index(shape[:1])] for part in (one, two))
    for tensor in (one + two + shape, unpacked):
        expected = dm_env_rpc_pb2.EnvironmentResponse.FromString(response(tensor))
        np.testing.assert_array_equal(
            tensor_utils.unpack_tensor(expected.step.observations[1]), [1, 2, 3]
        )
        received = _wire.parse_response(response(tensor)).step.observations[1]
        np.testing.assert_array_equal(_wire.unpack(received), [1, 2, 3])
