# SPDX-License-Identifier: Apache-2.0
"""A tree of properties through the official PropertiesExtension."""

import numpy as np
import pytest
from dm_env import specs
from dm_env_rpc.v1 import dm_env_adaptor
from dm_env_rpc.v1.extensions import properties
from joining import connect


@pytest.fixture
def connection(worlds):
    with connect(worlds["garden"]) as connected:
        yield connected


def tree(extension, key=""):
    """Returns all properties below a key, nested."""
    return {
        name: tree(extension, name) if spec.listable else spec
        for name, spec in extension.specs(key).items()
    }


def test_behaviour_45_a_tree_is_walked_from_the_empty_key(connection):
    extension = properties.PropertiesExtension(connection)
    root = tree(extension)
    shed = root["shed"]
    assert set(shed) == {"shed.label", "shed.shelf", "shed.secret", "shed.secrets"}
    assert set(shed["shed.shelf"]) == {"shed.shelf.count", "shed.shelf.weights"}
    label = shed["shed.label"]
    assert label.readable and label.writable and not label.listable
    assert label.description == "What is on the door"
    assert isinstance(label.spec, specs.StringArray)
    count = shed["shed.shelf"]["shed.shelf.count"].spec
    assert (count.minimum, count.maximum, count.dtype) == (1, 9, np.int32)
    assert extension.specs()["shed"].spec is None


def test_behaviour_45_values_are_read_and_written(connection):
    extension = properties.PropertiesExtension(connection)
    assert extension["shed.shelf.weights"].tolist() == [[0.5, 1.0], [1.5, 2.0]]
    extension["shed.label"] = "rake"
    assert extension["shed.label"] == "rake"
    extension["shed.label"] = "spade"
    before = extension["shed.secrets"]
    extension["shed.secret"] = np.uint64(2**63)
    assert extension["shed.secrets"] == before + 1


def test_behaviour_46_refusals_are_pythons_own_errors(connection):
    extension = properties.PropertiesExtension(connection)
    with pytest.raises(KeyError):
        extension["shed.nothing"]
    with pytest.raises(PermissionError):
        extension["shed.secret"]
    with pytest.raises(PermissionError):
        extension["shed.shelf.count"] = np.int32(3)
    with pytest.raises(PermissionError):
        extension.list("shed.label")
    with pytest.raises(ValueError):
        extension["shed.label"] = 3
    with pytest.raises(KeyError):
        extension["bed.height"]


def test_behaviour_46_a_world_adds_its_own_after_a_join(connection):
    env = dm_env_adaptor.join_world(connection, "garden-1", {})
    extension = properties.PropertiesExtension(connection)
    with env:
        env.reset()
        env.step({"water": np.float32(0.5)})
        assert extension["bed.height"] == 0.5
        extension["bed.height"] = np.float32(2)
        assert env.step({}).observation["height"] == 2
        assert {"shed", "bed"} <= set(extension.specs())
    with pytest.raises(KeyError):
        extension["bed.height"]
