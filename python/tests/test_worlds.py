# SPDX-License-Identifier: Apache-2.0
"""No sample or template world is forgotten by the tests of the environments."""

import re

from conftest import FOR_TWO, OWN, REAL_TIME, SAMPLES, WORLDS
from processes import ROOT

DEFINITION = re.compile(r"\b(?:defineWorld|defineEnvironment|canvasEnvironment)\(")


def test_every_sample_and_template_world_is_played():
    folders = [*ROOT.glob("apps/*"), *ROOT.glob("examples/*"), ROOT / "packages/create/template"]
    sources = [path for folder in folders for path in folder.glob("src/**/*.ts")]
    defined = {
        str(path.relative_to(ROOT)): len(DEFINITION.findall(path.read_text()))
        for path in sources
        if not path.name.endswith(".test.ts")
    }
    assert {path: count for path, count in defined.items() if count} == dict.fromkeys(WORLDS, 1)


def test_every_clock_of_the_gridworld_is_played():
    table = (ROOT / "apps/gridworld-server/src/clocks.ts").read_text()
    clocks = re.findall(r"^  (\w+): \{", table, re.MULTILINE)
    played = WORLDS["apps/gridworld-server/src/world.ts"]
    assert {"gridworld" if clock == "lockstep" else clock for clock in clocks} == set(played)


def test_every_excepted_world_exists():
    names = {name for names in WORLDS.values() for name in names}
    assert {*FOR_TWO, *REAL_TIME, *OWN, *SAMPLES} == names
