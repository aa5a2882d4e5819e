# SPDX-License-Identifier: Apache-2.0
"""Spaces in the form that Stable-Baselines3 needs, tested without Stable-Baselines3."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from dm_env_rpc_gym import SpecError
from dm_env_rpc_gym._flat import FlatActions, FlatObservations, info_list
from dm_env_rpc_gym._tensors import AnyText

SCALAR = spaces.Box(-1, 1, (), np.float32)


def test_dicts_of_dicts_become_one_with_slashes_and_scalars_get_a_length():
    space = spaces.Dict(cart=spaces.Dict(at=SCALAR), grid=spaces.Box(0, 9, (2,), np.int8))
    flat = FlatObservations(space)
    assert flat.space == spaces.Dict(
        {
            "cart/at": spaces.Box(-1, 1, (1,), np.float32),
            "grid": spaces.Box(0, 9, (2,), np.int8),
        }
    )
    assert flat.flatten(space.sample()) in flat.space
    batch = batch_space(space, 3).sample()
    assert flat.flatten(batch) in batch_space(flat.space, 3)


def test_a_bare_observation_stays_bare():
    flat = FlatObservations(spaces.Discrete(5))
    assert flat.space == spaces.Discrete(5)
    assert flat.flatten(np.int64(3)) == 3


def test_text_cannot_be_learned_from():
    with pytest.raises(SpecError, match="observation it cannot be learned from"):
        FlatObservations(spaces.Dict(it=AnyText(5), other=SCALAR))


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(3, start=-1), spaces.Discrete(3)),
        (spaces.MultiDiscrete([3, 2], start=[1, 0]), spaces.MultiDiscrete([3, 2])),
        (spaces.MultiBinary([3]), spaces.MultiBinary([3])),
        (SCALAR, spaces.Box(-1, 1, (1,), np.float32)),
        (
            spaces.Dict(a=spaces.Discrete(3), b=spaces.Dict(c=spaces.Discrete(2, start=5))),
            spaces.MultiDiscrete([3, 2]),
        ),
        (
            spaces.Dict(a=SCALAR, b=spaces.Box(-2, 2, (2, 1), np.float32)),
            spaces.Box(np.float32([-1, -2, -2]), np.float32([1, 2, 2])),
        ),
    ],
)
def test_actions_are_one_space_from_0_and_come_back_as_they_were(space, expected):
    flat = FlatActions(space)
    assert flat.space == expected
    flat.space.seed(1)
    batch = flat.unflatten(np.stack([flat.space.sample() for _ in range(4)]))
    for action in iterate(batch_space(space, 4), batch):
        assert space.contains(action)


def test_actions_of_several_kinds_cannot_be_learned_together():
    with pytest.raises(SpecError, match="choose some with actions="):
        FlatActions(spaces.Dict(a=SCALAR, b=spaces.Discrete(3)))


def test_infos_of_a_vector_become_one_dict_for_each_slot():
    present = np.array([True, False])
    infos = {"mask": np.array([[1], [0]]), "_mask": present, "in": {"x": [5, 0], "_x": present}}
    infos["_in"] = present
    assert info_list(infos, 2) == [{"mask": 1, "in": {"x": 5}}, {}]
