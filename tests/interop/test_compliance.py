# SPDX-License-Identifier: Apache-2.0
"""The official package's own compliance suite, on our servers."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from dm_env_rpc.v1 import compliance, tensor_utils
from dm_env_rpc.v1.compliance import (
    create_destroy_world,
    join_leave_world,
    reset,
    reset_world,
    step,
)
from joining import (
    EXACTING_CREATE,
    EXACTING_JOIN,
    create_world,
    destroy_world,
    join_world,
    leave_world,
    packed,
)


class Gridworld:
    """The sample world, which requires no setting."""

    create_settings = {"seed": 3, "max_steps": 1000}
    required_create = {}
    join_settings = {}
    reset_world_settings = {"seed": np.uint64(9)}
    bad_create = {"hight": 9, "height": "tall", "width": -1, "layout": "?"}
    bad_join = {"nmae": "ada", "name": 3, "level": 86}
    has_world = True

    @pytest.fixture(autouse=True)
    def _reach(self, gridworld_address, connections):
        self.prepare(connections(gridworld_address))
        yield
        self.tidy()

    def prepare(self, connection):
        self._connection = connection
        self._world = None
        if self.has_world:
            self._world = create_world(self._connection, self.create_settings)

    def tidy(self):
        if self.has_world:
            leave_world(self._connection)
            destroy_world(self._connection, self._world)

    @property
    def connection(self):
        return self._connection

    @property
    def world_name(self):
        return self._world


class Exacting(Gridworld):
    """A world that requires settings, and whose specs depend on them."""

    create_settings = required_create = EXACTING_CREATE
    join_settings = EXACTING_JOIN
    bad_create = {"map": "meadow", "sise": 3, "seed": -1}
    bad_join = {"look.colour": np.array([1, 2], np.uint8), "look": 1}

    @pytest.fixture(autouse=True)
    def _reach(self, worlds, connections):
        self.prepare(connections(worlds["exacting"]))
        yield
        self.tidy()


class EveryAction(Gridworld):
    """A world with actions of every shape and dtype."""

    create_settings = required_create = {}

    @pytest.fixture(autouse=True)
    def _reach(self, worlds, connections):
        self.prepare(connections(worlds["every-action"]))
        yield
        self.tidy()


class CreateDestroy(create_destroy_world.CreateDestroyWorld):
    has_multiple_world_support = True

    @property
    def required_world_settings(self):
        return packed(self.required_create)

    @property
    def invalid_world_settings(self):
        return packed(self.bad_create)


class JoinLeave(join_leave_world.JoinLeaveWorld):
    @property
    def required_join_settings(self):
        return packed(self.join_settings)

    @property
    def invalid_join_settings(self):
        return packed(self.bad_join)


class Reset(reset.Reset):
    def join_world(self):
        return join_world(self._connection, self._world, self.join_settings)


class ResetWorld(reset_world.ResetWorld):
    @property
    def required_join_world_settings(self):
        return packed(self.join_settings)

    @property
    def required_reset_world_settings(self):
        return packed(self.reset_world_settings)


class Step(step.Step):
    def setUp(self):
        super().setUp()
        self._specs = join_world(self._connection, self._world, self.join_settings)

    @property
    def specs(self):
        return self._specs


class TestGridworldCreateDestroyWorld(Gridworld, CreateDestroy):
    has_world = False


class TestGridworldJoinLeaveWorld(Gridworld, JoinLeave):
    pass


class TestGridworldReset(Gridworld, Reset):
    pass


class TestGridworldResetWorld(Gridworld, ResetWorld):
    pass


class TestGridworldStep(Gridworld, Step):
    pass


class TestExactingCreateDestroyWorld(Exacting, CreateDestroy):
    has_world = False


class TestExactingJoinLeaveWorld(Exacting, JoinLeave):
    pass


class TestExactingReset(Exacting, Reset):
    pass


class TestExactingResetWorld(Exacting, ResetWorld):
    pass


class TestExactingStep(Exacting, Step):
    pass


class TestEveryActionStep(EveryAction, Step):
    def test_the_world_has_what_the_checks_need(self):
        actions = self.specs.actions.values()
        assert any(len(spec.shape) >= 2 for spec in actions)
        assert any(-1 in spec.shape for spec in actions)
        bounded = [spec for spec in actions if spec.HasField("min")]
        assert any(len(tensor_utils.unpack_proto(spec.min)) > 1 for spec in bounded)
        assert len({spec.dtype for spec in actions}) == 10


def test_no_class_of_the_suite_is_left_out():
    upstream = set()
    for found in pkgutil.iter_modules(compliance.__path__, f"{compliance.__name__}."):
        for cls in vars(importlib.import_module(found.name)).values():
            if inspect.isclass(cls) and cls.__module__ == found.name:
                upstream.add(cls)
    assert len(upstream) == 5
    mine = [cls for name, cls in globals().items() if name.startswith("TestGridworld")]
    for cls in upstream:
        [run] = [one for one in mine if issubclass(one, cls)]
        for name in dir(cls):
            if name.startswith("test"):
                assert getattr(run, name) is getattr(cls, name), f"{name} is overridden"
