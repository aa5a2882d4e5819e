# SPDX-License-Identifier: Apache-2.0
"""Our codec against tensor_utils and tensor_spec_utils: same values, same bytes, same refusals.

Where the two differ, each difference has a test of its own at the end of this file.
"""

import random

import dm_env_rpc
import numpy as np
import pytest
from codec_bridge import ask, pack_request, spec_request, unpack_request
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_spec_utils, tensor_utils

COUNT = 3_000

DTYPES = {
    "float32": dm_env_rpc_pb2.FLOAT,
    "float64": dm_env_rpc_pb2.DOUBLE,
    "int8": dm_env_rpc_pb2.INT8,
    "int32": dm_env_rpc_pb2.INT32,
    "int64": dm_env_rpc_pb2.INT64,
    "uint8": dm_env_rpc_pb2.UINT8,
    "uint32": dm_env_rpc_pb2.UINT32,
    "uint64": dm_env_rpc_pb2.UINT64,
    "bool": dm_env_rpc_pb2.BOOL,
    "string": dm_env_rpc_pb2.STRING,
}
NUMERIC = [name for name in DTYPES if name not in ("bool", "string")]
WORDS = ["", "a", "ß", "日本", "\U0001f600", "x" * 200, "a\x00b"]


def draw_elements(rng, dtype, count):
    """Draws elements of a dtype, often extreme ones."""
    if dtype == "string":
        return np.array([rng.choice(WORDS) for _ in range(count)] or [], np.str_)
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(count)], bool)
    if dtype.startswith("float"):
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 0.1]
        drawn = [
            rng.choice(special) if rng.random() < 0.3 else rng.gauss(0, 1e3) for _ in range(count)
        ]
        return np.array(drawn).astype(dtype)
    info = np.iinfo(dtype)
    extreme = [info.min, info.max, 0, 1]
    drawn = [
        rng.choice(extreme) if rng.random() < 0.3 else rng.randint(info.min, info.max)
        for _ in range(count)
    ]
    return np.array(drawn, dtype)


def draw_array(rng, dtype):
    shape = [rng.choice([0, 1, 1, 2, 2, 3, 5]) for _ in range(rng.randint(0, 4))]
    return draw_elements(rng, dtype, int(np.prod(shape))).reshape(shape)


def python_or_none(call):
    """Returns Python's bytes, or None if it refuses."""
    try:
        return call()
    except (ValueError, TypeError):
        return None


def repacked(tensor):
    """Returns the bytes of a tensor that was unpacked and packed again."""
    name = tensor.WhichOneof("payload")
    dtype = np.str_ if name == "strings" else None
    return tensor_utils.pack_tensor(tensor_utils.unpack_tensor(tensor), dtype).SerializeToString()


def test_arrays_are_packed_to_the_same_bytes():
    rng = random.Random(1)
    arrays = [(dtype, draw_array(rng, dtype)) for _ in range(COUNT // 10) for dtype in DTYPES]
    ours = ask([pack_request(dtype, array) for dtype, array in arrays])
    for (dtype, array), mine in zip(arrays, ours, strict=True):
        theirs = tensor_utils.pack_tensor(array, np.str_ if dtype == "string" else None)
        assert mine == theirs.SerializeToString(), (dtype, array)


def test_uniform_arrays_are_compressed_to_the_same_bytes():
    rng = random.Random(2)
    arrays = []
    for _ in range(60):
        for dtype in DTYPES:
            shape = [rng.randint(1, 4) for _ in range(rng.randint(0, 3))]
            one = draw_elements(rng, dtype, 1)[0]
            if one == one:  # not NaN, see below
                arrays.append((dtype, np.full(shape, one)))
    ours = ask([pack_request(dtype, array, compress=True) for dtype, array in arrays])
    for (dtype, array), mine in zip(arrays, ours, strict=True):
        theirs = tensor_utils.pack_tensor(array, try_compress=True)
        assert mine == theirs.SerializeToString(), (dtype, array)


def draw_packed(rng):
    """Makes a Tensor with a variable dimension, with one element, or with too many."""
    dtype = rng.choice(list(DTYPES))
    shape = [rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(0, 3))]
    count = int(np.prod(shape))
    if rng.random() < 0.25:
        count = 1
    elif rng.random() < 0.25:
        count = max(count + rng.choice([-1, 1]), 0)
    tensor = tensor_utils.pack_tensor(draw_elements(rng, dtype, max(count, 1)), None)
    if count == 0:
        payload = getattr(tensor, tensor.WhichOneof("payload"))
        payload.ClearField("array")
    if shape and rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = -1
    if count > 1 and len(shape) > 1 and rng.random() < 0.1:
        shape[0] = shape[1] = -1
    tensor.shape[:] = shape
    return tensor


def test_packed_tensors_are_read_or_refused_alike():
    rng = random.Random(3)
    tensors = [draw_packed(rng) for _ in range(COUNT)]
    tensors += [dm_env_rpc_pb2.Tensor(), dm_env_rpc_pb2.Tensor(shape=[2])]
    ours = ask([unpack_request(tensor) for tensor in tensors])
    read = refused = 0
    for tensor, mine in zip(tensors, ours, strict=True):
        theirs = python_or_none(lambda: repacked(tensor))
        assert mine == theirs, tensor
        read += mine is not None
        refused += mine is None
    assert read > COUNT / 3 and refused > COUNT / 10


def draw_spec(rng):
    """Makes a spec with bounds of any kind, or without; some are invalid."""
    dtype = rng.choice(list(DTYPES))
    shape = [rng.choice([1, 2, 3]) for _ in range(rng.randint(0, 2))]
    spec = dm_env_rpc_pb2.TensorSpec(name=rng.choice("abc"), dtype=DTYPES[dtype], shape=shape)
    if dtype not in NUMERIC or rng.random() < 0.2:
        if shape and rng.random() < 0.5:
            spec.shape[0] = -1
        return spec
    count = int(np.prod(shape)) if rng.random() < 0.5 else 1
    one, other = (np.nan_to_num(draw_elements(rng, dtype, count)) for _ in range(2))
    ordered = rng.random() < 0.9
    low, high = (np.minimum(one, other), np.maximum(one, other)) if ordered else (one, other)
    bound_dtype = dtype if rng.random() < 0.9 else rng.choice(NUMERIC)
    packer = tensor_utils.get_packer(bound_dtype)
    with np.errstate(all="ignore"):
        packer.pack(spec.min, low.astype(bound_dtype))
        packer.pack(spec.max, high.astype(bound_dtype))
    return spec


def is_sound(spec):
    """Returns whether Python accepts a spec, or raises its error."""
    bounds = tensor_spec_utils.bounds(spec)
    return bounds is not None


def test_specs_are_read_and_written_or_refused_alike():
    rng = random.Random(4)
    specs = [draw_spec(rng) for _ in range(COUNT)]
    ours = ask([spec_request(spec) for spec in specs])
    same = refused = 0
    for spec, mine in zip(specs, ours, strict=True):
        bounded = spec.HasField("min")
        if bounded and python_or_none(lambda: is_sound(spec)) is None:
            assert mine is None, spec
            refused += 1
        else:
            assert mine == spec.SerializeToString(), spec
            same += 1
    assert same > COUNT / 3 and refused > COUNT / 50


# The differences, and why.


def one(request):
    return ask([request])[0]


def test_difference_a_zero_dimension_is_not_filled():
    """One element with a 0 in the shape: they make it 1, here 0 elements are expected."""
    tensor = dm_env_rpc_pb2.Tensor(shape=[0, 2])
    tensor.int32s.array.append(7)
    assert tensor_utils.unpack_tensor(tensor).shape == (1, 2)
    assert one(unpack_request(tensor)) is None


def test_difference_two_variable_dimensions_are_an_error_with_one_element_too():
    tensor = dm_env_rpc_pb2.Tensor(shape=[-1, -1])
    tensor.int32s.array.append(7)
    assert tensor_utils.unpack_tensor(tensor).shape == (1, 1)
    assert one(unpack_request(tensor)) is None


def test_difference_zeros_of_both_signs_are_not_compressed():
    """They compare with ==, to which -0 is 0; here elements are equal bit for bit."""
    array = np.array([0.0, -0.0])
    theirs = tensor_utils.pack_tensor(array, try_compress=True)
    assert len(theirs.doubles.array) == 1
    mine = dm_env_rpc_pb2.Tensor.FromString(one(pack_request("float64", array, compress=True)))
    assert np.signbit(mine.doubles.array).tolist() == [False, True]


def test_difference_nans_of_the_same_bits_are_compressed():
    array = np.full(3, np.nan)
    assert len(tensor_utils.pack_tensor(array, try_compress=True).doubles.array) == 3
    mine = dm_env_rpc_pb2.Tensor.FromString(one(pack_request("float64", array, compress=True)))
    assert len(mine.doubles.array) == 1


def test_difference_an_empty_tensor_can_be_packed_with_compression():
    array = np.zeros((0, 2), np.int32)
    with pytest.raises(StopIteration):
        tensor_utils.pack_tensor(array, try_compress=True)
    mine = dm_env_rpc_pb2.Tensor.FromString(one(pack_request("int32", array, compress=True)))
    assert list(mine.shape) == [0, 2] and mine.WhichOneof("payload") == "int32s"


def test_difference_a_string_keeps_the_zeros_at_its_end():
    """NumPy's fixed-width strings end with zeros, so that those of the value are lost."""
    tensor = dm_env_rpc_pb2.Tensor(shape=[1])
    tensor.strings.array.append("a\x00")
    assert tensor_utils.unpack_tensor(tensor).tolist() == ["a"]
    read = dm_env_rpc_pb2.Tensor.FromString(one(unpack_request(tensor)))
    assert list(read.strings.array) == ["a\x00"]


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", [300]), ("uint8", [256.5]), ("int32", [2**40])]
)
def test_difference_numbers_that_do_not_fit_are_never_wrapped(dtype, value):
    """They cast within a kind, 300 to an int8 of 44; here nothing is cast silently."""
    theirs = python_or_none(lambda: tensor_utils.pack_tensor(np.array(value), dtype))
    if isinstance(value[0], int):
        assert tensor_utils.unpack_tensor(theirs)[0] != value[0]
    assert one({"do": "pack lists", "dtype": dtype, "value": value}) is None


@pytest.mark.parametrize("value", [3.0, 3.5])
def test_difference_theirs_refuses_or_truncates_any_float_for_an_integer(value):
    """1.1.6 refuses even 3.0 for an integer; 1.1.7 makes 3 of 3.5."""
    theirs = python_or_none(lambda: tensor_utils.pack_tensor([value], np.int32))
    if dm_env_rpc.__version__ == "1.1.6":
        assert theirs is None
    else:
        assert list(theirs.int32s.array) == [3]


def test_difference_a_whole_number_is_an_integer_whatever_its_notation():
    """JavaScript has one type of number: 3.0 is 3, and 3.5 is refused."""
    assert one({"do": "pack lists", "dtype": "int32", "value": [3.5]}) is None
    mine = dm_env_rpc_pb2.Tensor.FromString(
        one({"do": "pack lists", "dtype": "int32", "value": [3.0]})
    )
    assert list(mine.int32s.array) == [3]


def test_any_negative_dimension_is_variable_for_both():
    tensor = dm_env_rpc_pb2.Tensor(shape=[-2, 2])
    tensor.int32s.array.extend([1, 2, 3, 4])
    assert tensor_utils.unpack_tensor(tensor).shape == (2, 2)
    assert one(unpack_request(tensor)) == repacked(tensor)


def test_both_refuse_ragged_lists():
    ragged = [[1, 2], [3]]
    assert python_or_none(lambda: tensor_utils.pack_tensor(ragged)) is None
    assert one({"do": "pack lists", "dtype": "float64", "value": ragged}) is None


@pytest.mark.parametrize(
    ("dtype", "shape", "low", "high"),
    [("uint8", [], 0, 255), ("int32", [], 0, 2**31 - 1), ("int32", [-1], 0, 5)],
)
def test_behaviour_16_bounds_that_dm_env_cannot_say_are_read_and_written(dtype, shape, low, high):
    spec = dm_env_rpc_pb2.TensorSpec(name="n", dtype=DTYPES[dtype], shape=shape)
    numpy = np.dtype(dtype).type
    tensor_spec_utils.set_bounds(spec, numpy(low), numpy(high))
    assert one(spec_request(spec)) == spec.SerializeToString()


def test_difference_one_integer_bound_is_written_with_the_other():
    """Their client fails on a single one, so the dtype's goes out beside it."""
    spec = dm_env_rpc_pb2.TensorSpec(name="n", dtype=dm_env_rpc_pb2.INT64)
    tensor_spec_utils.set_bounds(spec, np.int64(3), None)
    written = dm_env_rpc_pb2.TensorSpec.FromString(one(spec_request(spec)))
    assert list(written.max.int64s.array) == [2**63 - 1]
