# SPDX-License-Identifier: Apache-2.0
"""Spaces for tensor specs, and the values of those spaces as tensors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from dm_env_rpc.v1 import dm_env_rpc_pb2, tensor_utils
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from ._wire import pack, unpack, unpack_flat
from .errors import ActionError, SpecError

MAX_TEXT_LENGTH = 4096
"""Maximum length of a text that a space samples; the space also contains longer texts."""

_MAX_CHOICES = 2**31 - 1

Array = npt.NDArray[Any]


class AnyText(spaces.Text):
    """Text of any length and any characters, as the protocol has it."""

    def contains(self, x: Any) -> bool:
        """Returns True for every string."""
        return isinstance(x, str)


class WideBox(spaces.Box):
    """Integers of 64 bits, which `Box` samples wrongly because it adds 1 to their maximum."""

    def sample(self, mask: None = None, probability: None = None) -> Array:
        """Returns integers from `low` to `high`, all equally likely."""
        low: Any = self.low
        high: Any = self.high
        dtype: Any = self.dtype.type
        return np.asarray(self.np_random.integers(low, high, dtype=dtype, endpoint=True))


class TensorSpace:
    """A tensor spec as a space.

    Attributes:
        name: The spec's name.
        space: Contains every value that the spec allows.
    """

    def __init__(
        self,
        name: str,
        space: spaces.Space[Any],
        decode: Callable[[Any], Any],
        encode: Callable[[Any], Array],
    ) -> None:
        self.name = name
        self.space = space
        self._decode = decode
        self._encode = encode

    def decode(self, tensor: Any) -> Any:
        """Returns a tensor of the server as a value of the space."""
        return self._decode(unpack(tensor))

    def encode(self, value: Any) -> Any:
        """Returns a value as a tensor.

        Raises:
            ActionError: The value's kind, shape or range is not the spec's.
        """
        return pack(self._encode(value))


class BatchedSpace:
    """A tensor spec with a leading dimension for slots, as the space of one slot.

    Values are batched as `gymnasium.vector.utils` batches those of the space.

    Attributes:
        name: The spec's name.
        space: The space of one slot.
    """

    def __init__(
        self, spec: Any, slots: int, make: Callable[[Any], TensorSpace], *, acts: bool
    ) -> None:
        self._slots = slots
        self._single = make(_row_of(spec, slots))
        self.name = self._single.name
        self.space = self._single.space
        self._batched = batch_space(self.space, slots) if acts else None
        self._encode = make(spec)._encode if acts else None
        self._plain = isinstance(
            self.space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        )

    def decode(self, tensor: Any) -> Any:
        """Returns a tensor of the server as the batched values of all slots."""
        array = unpack(tensor)
        if self._plain:
            return np.array(array, self.space.dtype)
        rows = [self._single._decode(row) for row in array]
        batch: Any = create_empty_array(self.space, self._slots)
        return concatenate(self.space, rows, batch)

    def rows(self, tensor: Any, slots: npt.NDArray[np.intp]) -> list[Any]:
        """Returns the values of some slots."""
        array = unpack(tensor)
        if self._plain and not (isinstance(self.space, spaces.Box) and self.space.shape == ()):
            return list(np.array(array[slots], self.space.dtype))
        return [self._single._decode(array[slot]) for slot in slots]

    def encode(self, value: Any) -> Any:
        """Returns the batched actions of all slots as a tensor.

        Raises:
            ActionError: The kind, shape or range of the actions is not the spec's.
        """
        assert self._encode is not None
        assert self._batched is not None
        if self._plain:
            return pack(self._encode(value))
        return pack(self._encode(tuple(iterate(self._batched, value))))

    def encode_rows(self, values: Mapping[int, Any], count: int) -> Any:
        """Returns the actions of some rows as a tensor; the others have zeros.

        Raises:
            ActionError: The kind, shape or range of an action is not the spec's.
        """
        rows = {row: self._single._encode(value) for row, value in values.items()}
        other = np.zeros_like(next(iter(rows.values())))
        return pack(np.stack([rows.get(row, other) for row in range(count)]))


def _row_of(spec: Any, slots: int) -> Any:
    """The spec of one slot; bounds for each element are those of the first."""
    row = type(spec)()
    row.CopyFrom(spec)
    del row.shape[0]
    for which in ("min", "max"):
        if spec.HasField(which):
            bound = getattr(row, which)
            flat = unpack_flat(bound)
            if flat.size > 1:
                field = bound.WhichOneof("payload")
                first = pack(flat[: flat.size // slots])
                getattr(bound, field).array = getattr(first, field).array
    return row


def action_space_of(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    """The space of an action.

    A bounded integer is `Discrete`, a list of them `MultiDiscrete`; all else is as for an
    observation.
    """
    shape = tuple(spec.shape)
    bounds = _integer_bounds(spec)
    if bounds is not None and shape == ():
        return _discrete(spec, int(bounds[0]), int(bounds[1]))
    if bounds is not None and len(shape) == 1 and shape[0] > 0:
        low, high = bounds
        counts = high.astype(object) - low.astype(object) + 1
        if max(counts) <= _MAX_CHOICES:
            space = spaces.MultiDiscrete(counts.astype(np.int64), dtype=low.dtype.type, start=low)
            return TensorSpace(spec.name, space, np.array, _array_encoder(spec))
    return observation_space_of(spec)


def observation_space_of(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    """The space of an observation.

    Integers from 0 to a declared maximum are `Discrete`, as dm_env has them; other numbers `Box`;
    booleans `Discrete(2)` and `MultiBinary`; strings `AnyText` in tuples of the spec's shape. A
    spec with a variable dimension is a `Sequence` along it.

    Raises:
        SpecError: The dtype has no space; an example is protocol buffers.
    """
    shape = tuple(spec.shape)
    if sum(length < 0 for length in shape) > 1:
        raise SpecError(
            f"spec {spec.name} has the shape {list(shape)}: expected at most one variable "
            "dimension",
            "INVALID_ARGUMENT",
            "correct it in the world",
        )
    if not has_space(spec):
        raise SpecError(
            f"spec {spec.name} has no space: expected numbers, booleans or strings, received "
            f"{dm_env_rpc_pb2.DataType.Name(spec.dtype)}",
            "UNIMPLEMENTED",
            "leave it out of observations= or actions=",
        )
    if any(length < 0 for length in shape):
        return _sequence(spec)
    if spec.dtype == dm_env_rpc_pb2.DataType.STRING:
        return _text(spec)
    if spec.dtype == dm_env_rpc_pb2.DataType.BOOL:
        return _boolean(spec)
    bounds = _integer_bounds(spec)
    if shape == () and bounds is not None and bounds[0] == 0:
        return _discrete(spec, 0, int(bounds[1]))
    return _box(spec)


def has_space(spec: dm_env_rpc_pb2.TensorSpec) -> bool:
    """False for dtypes without a space: protocol buffers and unknown dtypes."""
    return spec.dtype not in (
        dm_env_rpc_pb2.DataType.PROTO,
        dm_env_rpc_pb2.DataType.INVALID_DATA_TYPE,
    )


def pack_settings(settings: Mapping[str, Any]) -> dict[str, dm_env_rpc_pb2.Tensor]:
    """Settings as tensors; nested ones get names with dots, tensors stay as they are."""
    packed = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            nested = pack_settings(value)
            packed.update({f"{name}.{inner}": tensor for inner, tensor in nested.items()})
        elif isinstance(value, dm_env_rpc_pb2.Tensor):
            packed[name] = value
        else:
            packed[name] = tensor_utils.pack_tensor(value)
    return packed


def _box(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    low, high = _bounds(spec)
    dtype = _dtype(spec)
    kind = WideBox if dtype.kind in "iu" and dtype.itemsize == 8 else spaces.Box
    space = kind(low, high, tuple(spec.shape), dtype.type)
    return TensorSpace(spec.name, space, np.array, _array_encoder(spec))


def _discrete(spec: dm_env_rpc_pb2.TensorSpec, low: int, high: int) -> TensorSpace:
    if high - low >= _MAX_CHOICES:
        return _box(spec)
    space = spaces.Discrete(high - low + 1, start=low)
    return TensorSpace(spec.name, space, np.int64, _array_encoder(spec))


def _boolean(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    shape = tuple(spec.shape)

    def encode(value: Any) -> Array:
        array = _as_array(spec, value)
        if array.dtype.kind not in "bui" or not np.isin(array, (0, 1)).all():
            raise _misfit(spec, "True or False (or 0 or 1)", value)
        return array.astype(np.bool_)

    if shape == ():
        return TensorSpace(spec.name, spaces.Discrete(2), np.int64, encode)
    binary = spaces.MultiBinary(list(shape))
    return TensorSpace(spec.name, binary, lambda value: np.array(value, np.int8), encode)


def _text(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    shape = tuple(spec.shape)
    space: spaces.Space[Any] = AnyText(MAX_TEXT_LENGTH)
    for length in reversed(shape):
        space = spaces.Tuple([space] * length)

    def encode(value: Any) -> Array:
        array = _as_array(spec, value)
        # An empty list of strings has the dtype of numbers.
        if array.size == 0:
            array = array.astype(np.str_)
        if array.dtype.kind != "U":
            raise _misfit(spec, "a string" if shape == () else "strings", value)
        return array

    return TensorSpace(spec.name, space, _nested_text, encode)


def _nested_text(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tuple(_nested_text(inner) for inner in value)
    return str(value)


def _sequence(spec: dm_env_rpc_pb2.TensorSpec) -> TensorSpace:
    """A variable dimension, which is the first one of values, wherever it is in the spec."""
    shape = list(spec.shape)
    axis = next(index for index, length in enumerate(shape) if length < 0)
    element = type(spec)()
    element.CopyFrom(spec)
    element.shape[:] = shape[:axis] + shape[axis + 1 :]
    inner = observation_space_of(element)
    numbers = isinstance(inner.space, spaces.Box | spaces.MultiBinary)
    space = spaces.Sequence(inner.space, stack=numbers)

    def decode(value: Any) -> Any:
        moved = np.moveaxis(np.asarray(value), axis, 0)
        if isinstance(inner.space, spaces.Box | spaces.MultiBinary):
            return np.array(moved, inner.space.dtype)
        return tuple(inner._decode(item) for item in moved)

    def encode(value: Any) -> Array:
        rows = [inner._encode(item) for item in value]
        if not rows:
            return np.empty([max(length, 0) for length in shape], _dtype(spec))
        return np.stack(rows, axis)

    return TensorSpace(spec.name, space, decode, encode)


def _array_encoder(spec: dm_env_rpc_pb2.TensorSpec) -> Callable[[Any], Array]:
    dtype = _dtype(spec)
    low, high = _bounds(spec)
    bounded = dtype.kind != "f" or spec.HasField("min") or spec.HasField("max")
    kinds = "biuf" if dtype.kind == "f" else "biu"

    def encode(value: Any) -> Array:
        array = _as_array(spec, value)
        if array.dtype.kind not in kinds:
            raise _misfit(spec, dtype.name, value)
        with np.errstate(over="ignore"):
            cast = array.astype(dtype)
        # Integers are compared before the cast, which wraps; floats after it, which rounds.
        compared = cast if dtype.kind == "f" else array
        fits = not bounded or np.all((compared >= low) & (compared <= high))
        if not fits or (dtype.kind == "f" and np.any(np.isinf(cast) & np.isfinite(array))):
            raise _misfit(spec, f"{dtype.name} from {low} to {high}", value)
        return cast

    return encode


def _as_array(spec: dm_env_rpc_pb2.TensorSpec, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise _misfit(spec, f"the shape {list(spec.shape)}", value) from None
    if array.shape != tuple(spec.shape):
        raise _misfit(spec, f"the shape {list(spec.shape)}", value)
    return array


def _misfit(spec: dm_env_rpc_pb2.TensorSpec, expected: str, value: Any) -> ActionError:
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return ActionError(
        f"action {spec.name} does not fit: expected {expected}, received {shown} "
        f"({type(value).__name__})",
        "INVALID_ARGUMENT",
        "give a value of the action space; nothing was sent",
    )


def _dtype(spec: dm_env_rpc_pb2.TensorSpec) -> np.dtype[Any]:
    dtype: np.dtype[Any] = tensor_utils.data_type_to_np_type(spec.dtype)
    return dtype


def _integer_bounds(spec: dm_env_rpc_pb2.TensorSpec) -> tuple[Array, Array] | None:
    """Both bounds of an integer spec that declares a maximum; None for other specs."""
    if not has_space(spec) or _dtype(spec).kind not in "iu" or not spec.HasField("max"):
        return None
    if any(length < 0 for length in spec.shape):
        return None
    return _bounds(spec)


def _bounds(spec: dm_env_rpc_pb2.TensorSpec) -> tuple[Array, Array]:
    """Bounds of a spec's shape, in its dtype: those declared, else the dtype's own."""
    dtype = _dtype(spec)
    if dtype.kind == "f":
        least, most = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    else:
        info = np.iinfo(dtype)
        least, most = np.array(info.min, dtype), np.array(info.max, dtype)
    return _bound(spec, "min", least), _bound(spec, "max", most)


def _bound(spec: dm_env_rpc_pb2.TensorSpec, which: str, default: Array) -> Array:
    shape = tuple(spec.shape)
    if not spec.HasField(which):
        return np.broadcast_to(default, shape)
    declared = unpack_flat(getattr(spec, which)).astype(default.dtype)
    if declared.size == 1:
        return np.broadcast_to(declared.reshape(()), shape)
    return declared.reshape(shape)
