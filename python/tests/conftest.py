# SPDX-License-Identifier: Apache-2.0
"""The sample and template worlds, served by real processes on free ports."""

import contextlib
import pathlib

import pytest
from processes import ROOT, listening, serving, serving_worlds

WORLDS = {
    "apps/gridworld-server/src/world.ts": (
        "gridworld",
        "freeRunning",
        "turns",
        "wakeUp",
        "realtime",
    ),
    "examples/canvas-game/src/world.ts": ("page",),
    "examples/environment/src/environment.ts": ("cart-pole",),
    "examples/hello-world/src/main.ts": ("race",),
    "examples/matchmade/src/tug.ts": ("tug",),
    "examples/realtime/src/stone.ts": ("stone",),
    "examples/run-loops/src/catch.ts": ("catch",),
    "examples/tic-tac-toe/src/world.ts": ("tic-tac-toe",),
    "examples/vectorized/src/walk.ts": ("walk",),
    "packages/create/template/src/world.ts": ("coins",),
}
"""The file of each sample and template world, and the names under which the tests play it."""

FOR_TWO = ("tug", "tic-tac-toe")
"""Worlds that wait for a second agent, which an environment of Gymnasium does not have."""

REAL_TIME = ("realtime", "stone", "page")
"""Worlds that do not wait for their agents, so no seed repeats their sequences."""

OWN = ("cart-pole", "catch", "walk")
"""Worlds that give each agent an environment of its own."""

SAMPLES = [name for names in WORLDS.values() for name in names if name not in FOR_TWO + REAL_TIME]
"""All other worlds."""


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
            if name == "page":
                if not pathlib.Path("/usr/bin/chromium").exists():
                    pytest.skip("no Chromium on this machine")
                program = ROOT / "tests/browser/src/relayed-page.ts"
                return servers.enter_context(listening([program]))[1]
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
