# SPDX-License-Identifier: Apache-2.0
"""Nested settings of the official helpers, for a world that requires them."""

import numpy as np
import pytest
from dm_env_rpc.v1 import dm_env_adaptor, dm_env_rpc_pb2, error
from joining import EXACTING_CREATE, EXACTING_JOIN, create_world, destroy_world, packed

NESTED = {"size": 3, "map": {"name": "meadow", "rows": [4, 5]}}


@pytest.fixture
def connection(worlds, connections):
    return connections(worlds["exacting"])


def test_behaviour_21_nested_settings_arrive_by_their_dotted_names(connection):
    env, world = dm_env_adaptor.create_and_join_world(
        connection, NESTED, {"team": "red", "look": {"colour": np.array([1, 2, 255], np.uint8)}}
    )
    with env:
        observation = env.reset().observation
        assert observation["map"]["name"] == "meadow"
        assert observation["map"]["rows"].tolist() == [4, 5]
        assert observation["look"]["team"] == "red"
        assert observation["look"]["colour"].tolist() == [1, 2, 255]
        assert observation["place"].shape == (3,)
    destroy_world(connection, world)


@pytest.mark.parametrize("missing", EXACTING_CREATE)
def test_behaviour_21_a_required_setting_that_is_missing_is_named(connection, missing):
    rest = {name: value for name, value in EXACTING_CREATE.items() if name != missing}
    with pytest.raises(error.DmEnvRpcError, match=missing):
        create_world(connection, rest)


@pytest.mark.parametrize(
    "bad",
    [{"size": 0}, {"size": 11}, {"size": 2.5}, {"size": "3"}, {"map.rows": [1, 2, 3]}, {"seed": -1}],
)
def test_behaviour_21_a_setting_that_does_not_fit_is_named(connection, bad):
    with pytest.raises(error.DmEnvRpcError, match=next(iter(bad))):
        create_world(connection, {**EXACTING_CREATE, **bad})


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "float32", "float64"])
def test_behaviour_21_a_number_may_have_any_dtype_that_holds_it_exactly(connection, dtype):
    settings = {**EXACTING_CREATE, "size": np.array(3, dtype)}
    destroy_world(connection, create_world(connection, settings))


def test_behaviour_26_a_reset_with_settings_changes_what_the_agent_is(connection):
    env, world = dm_env_adaptor.create_and_join_world(connection, EXACTING_CREATE, EXACTING_JOIN)
    with env:
        env.reset()
        reset = dm_env_rpc_pb2.ResetRequest(settings=packed({"team": "blue"}))
        assert len(connection.send(reset).specs.observations) == 6
        assert env.step({}).observation["look"]["team"] == "blue"
    destroy_world(connection, world)
