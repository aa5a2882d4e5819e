# SPDX-License-Identifier: Apache-2.0
"""dm_env's own checks of an environment, on environments of the official adaptor."""

import numpy as np
import pytest
from absl.testing import absltest
from dm_env import test_utils
from dm_env_rpc.v1 import dm_env_adaptor
from joining import EXACTING_CREATE, EXACTING_JOIN, destroy_world


class EnvironmentOf(test_utils.EnvironmentTestMixin):
    """Makes the environment under test in a new world."""

    create_settings = {}
    join_settings = {}

    def make_object_under_test(self):
        env, self._world = dm_env_adaptor.create_and_join_world(
            self._connection, self.create_settings, self.join_settings
        )
        return env

    def tearDown(self):
        super().tearDown()
        destroy_world(self._connection, self._world)


class TestGridworldEnvironment(EnvironmentOf, absltest.TestCase):
    create_settings = {"max_steps": 7, "seed": 5}

    @pytest.fixture(autouse=True)
    def _reach(self, gridworld_address, connections):
        self._connection = connections(gridworld_address)

    def make_action_sequence(self):
        """Returns every action in turn, past the end of two sequences."""
        for step in range(20):
            yield {"move": np.int8(step % 6)}


class TestGridworldOfFourEnvironment(TestGridworldEnvironment):
    """The same with all settings given, and an observation of every other kind."""

    create_settings = {
        "height": 5,
        "width": 6,
        "food": 2,
        "sight": 1,
        "max_steps": 3,
        "cooperative": True,
        "penalty": 0.5,
        "normalize_reward": False,
    }
    join_settings = {"name": "ada", "level": 2}


class TestNestedEnvironment(EnvironmentOf, absltest.TestCase):
    create_settings = EXACTING_CREATE
    join_settings = EXACTING_JOIN

    @pytest.fixture(autouse=True)
    def _reach(self, worlds, connections):
        self._connection = connections(worlds["exacting"])
