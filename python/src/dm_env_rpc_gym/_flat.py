# SPDX-License-Identifier: Apache-2.0
"""Spaces without dicts of dicts, scalars and offsets, as Stable-Baselines3 needs them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from .errors import SpecError

Array = npt.NDArray[Any]
Path = tuple[str, ...]

SEPARATOR = "/"
"""Separator of the names of nested dicts: PyTorch refuses a "." in the name of a module."""


class FlatObservations:
    """Observations with the names of dicts joined by slashes, and scalars of the shape [1].

    Raises:
        SpecError: An observation has no space that Stable-Baselines3 knows.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._leaves = dict(_leaves(space))
        self._bare = not isinstance(space, spaces.Dict)
        flat = {
            SEPARATOR.join(path): _observation_leaf(path, leaf)
            for path, leaf in self._leaves.items()
        }
        self.space: spaces.Space[Any] = flat[""] if self._bare else spaces.Dict(flat)

    def flatten(self, observation: Any) -> Any:
        """Returns an observation, or a batch of them, of the flat space."""
        flat = {
            SEPARATOR.join(path): _with_length(leaf, _at(observation, path))
            for path, leaf in self._leaves.items()
        }
        return flat[""] if self._bare else flat


class FlatActions:
    """Actions as one `Discrete`, `MultiDiscrete`, `MultiBinary` or `Box` that begins at 0.

    Raises:
        SpecError: The actions are of several kinds, or of a kind that cannot be learned.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._leaves = list(_leaves(space))
        self._bare = not isinstance(space, spaces.Dict)
        kinds = [leaf for _, leaf in self._leaves]
        if self._bare:
            self.space = _bare_action(kinds[0])
        elif kinds and all(isinstance(leaf, spaces.Discrete) for leaf in kinds):
            self.space = spaces.MultiDiscrete([leaf.n for leaf in kinds])
        elif kinds and all(_is_float_box(leaf) for leaf in kinds):
            self.space = spaces.Box(
                np.concatenate([leaf.low.ravel() for leaf in kinds]),
                np.concatenate([leaf.high.ravel() for leaf in kinds]),
                dtype=kinds[0].dtype.type,
            )
        else:
            raise _no_actions(space)

    def unflatten(self, actions: Array) -> Any:
        """Returns a batch of actions of the flat space as one of the original space."""
        if self._bare:
            return _with_start(self._leaves[0][1], actions)
        tree: dict[str, Any] = {}
        column = 0
        for path, leaf in self._leaves:
            width = int(np.prod(leaf.shape or ()))
            columns = actions[:, column : column + width]
            column += width
            node = tree
            for parent in path[:-1]:
                node = node.setdefault(parent, {})
            node[path[-1]] = _with_start(leaf, columns)
        return tree


def _leaves(space: spaces.Space[Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(space, spaces.Dict):
        for name, inner in space.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, space


def _at(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _observation_leaf(path: Path, leaf: Any) -> spaces.Space[Any]:
    if isinstance(leaf, spaces.Box) and leaf.shape == ():
        return spaces.Box(leaf.low.reshape(1), leaf.high.reshape(1), dtype=leaf.dtype.type)
    if isinstance(leaf, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return leaf
    raise SpecError(
        f"observation {SEPARATOR.join(path)} cannot be learned from: expected numbers of a fixed "
        f"shape, received {leaf}",
        "UNIMPLEMENTED",
        "choose others with observations=",
    )


def _with_length(leaf: Any, value: Any) -> Any:
    scalar = isinstance(leaf, spaces.Box) and leaf.shape == ()
    return np.asarray(value)[..., np.newaxis] if scalar else value


def _bare_action(leaf: Any) -> spaces.Space[Any]:
    if isinstance(leaf, spaces.Discrete):
        return spaces.Discrete(leaf.n)
    if isinstance(leaf, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(leaf.nvec)
    if isinstance(leaf, spaces.MultiBinary):
        return leaf
    if _is_float_box(leaf):
        shape = leaf.shape or (1,)
        return spaces.Box(leaf.low.reshape(shape), leaf.high.reshape(shape), dtype=leaf.dtype.type)
    raise _no_actions(leaf)


def _with_start(leaf: Any, actions: Array) -> Array:
    if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
        actions = actions + leaf.start
    return actions.reshape(len(actions), *(leaf.shape or ()))


def _is_float_box(leaf: Any) -> bool:
    return isinstance(leaf, spaces.Box) and bool(np.issubdtype(leaf.dtype, np.floating))


def _no_actions(space: Any) -> SpecError:
    return SpecError(
        f"the actions cannot be learned together: expected only bounded integers or only floats, "
        f"received {space}",
        "UNIMPLEMENTED",
        "choose some with actions=",
    )


def info_list(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Returns the infos of a vector environment as one dict for each slot."""
    listed: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, values in infos.items():
        present = infos.get(f"_{name}")
        if present is None:
            continue
        inner = info_list(values, count) if isinstance(values, Mapping) else values
        for index in np.flatnonzero(present):
            listed[index][name] = inner[index]
    return listed
