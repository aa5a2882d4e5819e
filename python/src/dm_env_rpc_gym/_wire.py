# SPDX-License-Identifier: Apache-2.0
"""The protocol's messages with arrays of numbers as bytes, which NumPy reads and writes whole.

On the wire, a packed field is a length and bytes, like a field of type `bytes`. The generated
classes make a Python object of every element. The classes here are made from the official
descriptor, with `bytes` in place of the arrays, and read and write the same messages.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_utils
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Array = npt.NDArray[Any]

_FIELD = descriptor_pb2.FieldDescriptorProto

_NUMBERS = (
    _FIELD.TYPE_FLOAT,
    _FIELD.TYPE_DOUBLE,
    _FIELD.TYPE_INT32,
    _FIELD.TYPE_INT64,
    _FIELD.TYPE_UINT32,
    _FIELD.TYPE_UINT64,
    _FIELD.TYPE_BOOL,
)

_ONE_BYTE = 0x80
"""A varint below this bound is a single byte, its value."""


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    added = set()

    def add(file: Any) -> None:
        if file.name not in added:
            added.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            pool.AddSerializedFile(file.serialized_pb)

    original = dm_env_rpc_pb2.DESCRIPTOR
    for dependency in original.dependencies:
        add(dependency)
    file = descriptor_pb2.FileDescriptorProto()
    original.CopyToProto(file)
    [tensor] = (message for message in file.message_type if message.name == "Tensor")
    for array in tensor.nested_type:
        [field] = array.field
        if field.type in _NUMBERS:
            field.type = _FIELD.TYPE_BYTES
            field.label = _FIELD.LABEL_OPTIONAL
            field.ClearField("options")
    pool.Add(file)
    names = ("Tensor", "StepRequest", "EnvironmentRequest", "EnvironmentResponse")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}"))
        for name in names
    }


_made = _classes()
Tensor: Any = _made["Tensor"]
StepRequest: Any = _made["StepRequest"]
EnvironmentRequest: Any = _made["EnvironmentRequest"]
_EnvironmentResponse: Any = _made["EnvironmentResponse"]

_FIELD_OF: dict[np.dtype[Any], str] = {
    np.dtype(np.float32): "floats",
    np.dtype(np.float64): "doubles",
    np.dtype(np.int8): "int8s",
    np.dtype(np.int32): "int32s",
    np.dtype(np.int64): "int64s",
    np.dtype(np.uint8): "uint8s",
    np.dtype(np.uint32): "uint32s",
    np.dtype(np.uint64): "uint64s",
    np.dtype(np.bool_): "bools",
}
_DTYPE_OF = {field: dtype for dtype, field in _FIELD_OF.items()}

_FIXED = ("floats", "doubles", "int8s", "uint8s")
"""Encodings whose elements are as long as their dtype."""


def serialize(message: Any) -> bytes:
    """Returns the bytes of a message of either class."""
    return bytes(message.SerializeToString())


def parse_response(data: bytes) -> Any:
    """Parses an `EnvironmentResponse`."""
    response = _EnvironmentResponse.FromString(data)
    if response.ByteSize() != len(data):
        # This class keeps only the last chunk of an array; the official class joins them all.
        joined = dm_env_rpc_pb2.EnvironmentResponse.FromString(data).SerializeToString()
        response = _EnvironmentResponse.FromString(joined)
    return response


def pack(value: Array) -> Any:
    """Returns an array as a tensor of its dtype."""
    field = _FIELD_OF.get(value.dtype)
    if field in _FIXED:
        data = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    elif field is not None and (value.size == 0 or (value.min() >= 0 and value.max() < _ONE_BYTE)):
        data = value.astype(np.uint8).tobytes()
    else:
        return Tensor.FromString(tensor_utils.pack_tensor(value).SerializeToString())
    tensor = Tensor(shape=value.shape)
    getattr(tensor, field).array = data
    return tensor


def unpack(tensor: Any) -> Any:
    """Returns a tensor as an array of its shape, or a scalar; the memory may be read-only."""
    flat = unpack_flat(tensor)
    shape = tuple(tensor.shape)
    if flat.size == 0 and 0 not in shape:
        # This class does not read unpacked elements; the official class does.
        return tensor_utils.unpack_tensor(
            dm_env_rpc_pb2.Tensor.FromString(tensor.SerializeToString())
        )
    if flat.size > 1 and shape:
        return flat.reshape(shape)
    return tensor_utils.reshape_array(flat, shape)


def unpack_flat(message: Any) -> Array:
    """Returns the elements of a tensor, or of a bound; the memory may be read-only."""
    field = message.WhichOneof("payload")
    data = getattr(getattr(message, field or "", None), "array", None)
    if not isinstance(data, bytes):
        # Strings, protocol buffers, and messages of the generated classes.
        flat: Array = tensor_utils.unpack_proto(message)
        return flat
    dtype = _DTYPE_OF[field]
    if field in _FIXED:
        return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)
    octets = np.frombuffer(data, np.uint8)
    if octets.size == 0 or octets.max() < _ONE_BYTE:
        return octets.astype(dtype)
    return _varints(octets).astype(dtype)


def _varints(octets: Array) -> npt.NDArray[np.uint64]:
    """Returns the values of varints: groups of 7 bits, the least first, all but the last marked."""
    ends = np.flatnonzero(octets < _ONE_BYTE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    places = np.arange(ends[-1] + 1) - np.repeat(starts, lengths)
    groups = (octets[: ends[-1] + 1] & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.add.reduceat(groups, starts)
