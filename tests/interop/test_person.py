# SPDX-License-Identifier: Apache-2.0
"""A person in a page, a TypeScript agent and a Python agent in one world."""

import json
import pathlib
import subprocess

import pytest
from joining import connect, create_world, destroy_world
from processes import ROOT, serving
from test_mixed_agents import STEPS, PythonAgent

PRESSES = 12


@pytest.mark.skipif(
    not pathlib.Path("/usr/bin/chromium").exists(), reason="no Chromium on this machine"
)
def test_a_person_plays_with_an_agent_of_each_language():
    with serving("gridworld-server", "--page", "--deadline-ms", "60000") as address:
        with connect(address) as host:
            world = create_world(host, {"min_agents": 3, "max_steps": 9, "seed": 4, "food": 8})
            agent = PythonAgent(address, world, 0)
            agent.start()
            other = subprocess.Popen(
                [
                    "node",
                    str(ROOT / "apps/random-agent/dist/main.js"),
                    *("--address", address, "--world", world, "--agents", "1"),
                    *("--steps", str(STEPS), "--seed", "1", "--json"),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            person = subprocess.run(
                [
                    "node",
                    str(ROOT / "tests/browser/src/person.ts"),
                    *(f"http://{address}", world, str(PRESSES)),
                ],
                stdout=subprocess.PIPE,
                timeout=180,
                check=True,
            )
            played, _ = other.communicate(timeout=120)
            agent.join(timeout=120)
            assert not agent.is_alive()
            destroy_world(host, world)

    assert json.loads(person.stdout) == {"presses": PRESSES, "errors": []}
    assert json.loads(played)["agents"][0]["steps"] == STEPS
    # Each press is a tick of all three; between sequences the page steps by itself.
    together = [step for step in agent.timesteps if step.observation["agents"][:, 3].sum() == 3]
    assert len(agent.timesteps) == STEPS
    assert len(together) >= PRESSES
