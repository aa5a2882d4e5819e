# SPDX-License-Identifier: Apache-2.0
"""The sample and template worlds, served by real processes on free ports."""

import contextlib

import pytest
from processes import ROOT, listening, serving, serving_worlds

SAMPLES = ("gridworld", "freeRunning", "turns", "wakeUp", "cart-pole", "catch", "coins")
"""Sample worlds on every clock that waits for its agents, and the template's, that one can play."""


@pytest.fixture(scope="session")
def sample(worlds):
    """Returns the address of a sample world's server, which it starts when it is first needed."""
    with contextlib.ExitStack() as servers:
        addresses = {}

        def start(name):
            if name == "cart-pole":
                program = ROOT / "examples/environment/dist/serve.js"
                return servers.enter_context(listening([program], PORT="0"))[1]
            if name == "coins":
                program = ROOT / "packages/create/template/src/main.ts"
                command = [program, "--port", "0", "--grace-ms", "0"]
                return servers.enter_context(listening(command))[1]
            clock = "lockstep" if name == "gridworld" else name
            return servers.enter_context(serving("gridworld-server", "--clock", clock))

        def address(name):
            if name in worlds:
                return worlds[name]
            if name not in addresses:
                addresses[name] = start(name)
            return addresses[name]

        yield address


@pytest.fixture(scope="session")
def worlds():
    """Addresses of the tests' own worlds, by name."""
    with serving_worlds() as addresses:
        yield addresses


@pytest.fixture
def gridworld(sample):
    return sample("gridworld")
