# SPDX-License-Identifier: Apache-2.0
"""Bounds that dm_env cannot express: the official client plays, and the server checks them."""

import numpy as np
import pytest
from dm_env import specs
from dm_env_rpc.v1 import dm_env_adaptor, error
from dm_env_rpc.v1.extensions import properties
from joining import connect

TO_THE_TOP = {"int8", "int32", "int64", "uint8", "uint32", "uint64"}


@pytest.fixture
def connection(worlds):
    with connect(worlds["bounds"]) as connected:
        yield connected


@pytest.fixture
def environment(connection):
    env, _ = dm_env_adaptor.create_and_join_world(connection, {}, {})
    return env


def test_behaviour_16_specs_are_those_of_dm_env(environment):
    actions = environment.action_spec()
    assert {name for name, spec in actions.items() if type(spec) is specs.Array} == {
        *TO_THE_TOP,
        "list",
    }
    assert all(actions[name].dtype == name and actions[name].shape == () for name in TO_THE_TOP)
    assert actions["list"].shape == (-1,)
    assert (actions["all"].minimum, actions["all"].maximum) == (-128, 127)
    assert actions["each"].maximum.tolist() == [9, 9, 4]
    assert actions["few"].num_values == 3
    observations = environment.observation_spec()
    assert type(observations["ticks"]) is specs.Array
    assert type(observations["list"]) is specs.Array
    assert (observations["row"].minimum, observations["row"].maximum) == (0, 255)


def test_behaviour_17_the_whole_range_is_played_and_nothing_beyond_it(environment):
    environment.reset()
    for dtype in TO_THE_TOP:
        for value in (0, np.iinfo(dtype).max):
            environment.step({dtype: np.array(value, dtype)})
        if np.iinfo(dtype).min < 0:
            with pytest.raises(error.DmEnvRpcError, match="at least 0|from 0n? to"):
                environment.step({dtype: np.array(-1, dtype)})
    step = environment.step({"list": np.array([0, 5, 5], np.int32)})
    assert step.observation["list"].tolist() == [[0, 1]]
    with pytest.raises(error.DmEnvRpcError, match=r"element \[1\] from 0 to 5"):
        environment.step({"list": np.array([0, 6], np.int32)})


def test_behaviour_17_one_element_for_all_is_held_to_the_bounds_of_each(environment):
    environment.reset()
    environment.step({"each": np.full(3, 4, np.float32)})
    with pytest.raises(error.DmEnvRpcError, match=r"element \[2\] from 0 to 4"):
        environment.step({"each": np.full(3, 5, np.float32)})


def test_behaviour_16_specs_are_the_same_after_a_reset(environment):
    environment.reset()
    environment.step({})
    assert environment.reset().first()


def test_behaviour_45_a_property_has_a_spec_of_dm_env(connection, environment):
    listed = properties.PropertiesExtension(connection).specs()
    assert type(listed["byte"].spec) is specs.Array
    assert properties.PropertiesExtension(connection)["byte"] == 255
