# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's spaces for dm_env's specs."""

import gymnasium
import numpy as np
from dm_env import specs


def space_of(spec):
    """The space of a spec, or of a dict of specs."""
    if isinstance(spec, dict):
        return gymnasium.spaces.Dict({name: space_of(one) for name, one in spec.items()})
    if isinstance(spec, specs.DiscreteArray):
        return gymnasium.spaces.Discrete(int(spec.num_values))
    if isinstance(spec, specs.BoundedArray):
        low, high = spec.minimum, spec.maximum
    elif np.issubdtype(spec.dtype, np.integer):
        info = np.iinfo(spec.dtype)
        low, high = info.min, info.max
    else:
        low, high = -np.inf, np.inf
    if spec.shape == () and np.issubdtype(spec.dtype, np.integer) and int(high) - int(low) < 2**31:
        count = int(high) - int(low) + 1
        return gymnasium.spaces.Discrete(count, start=int(low))
    return gymnasium.spaces.Box(
        np.broadcast_to(low, spec.shape).astype(spec.dtype),
        np.broadcast_to(high, spec.shape).astype(spec.dtype),
        dtype=spec.dtype.type,
    )


def observation_in(space, value):
    """An observation as a space has it: numbers of 64 bits for what is counted, else arrays."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: observation_in(one, value[name]) for name, one in space.items()}
    return np.asarray(value, dtype=space.dtype)[()]


def action_for(spec, value):
    """An action as the server wants it: of the spec's dtype, for nothing is cast there."""
    if isinstance(spec, dict):
        return {name: action_for(one, value[name]) for name, one in spec.items()}
    return np.asarray(value, dtype=spec.dtype)
