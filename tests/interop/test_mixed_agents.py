# SPDX-License-Identifier: Apache-2.0
"""Python agents and TypeScript agents in one world."""

import json
import subprocess
import threading

import numpy as np
from dm_env_rpc.v1 import dm_env_adaptor
from joining import connect, create_world, destroy_world
from processes import ROOT

STEPS = 60


class PythonAgent(threading.Thread):
    """Makes the given number of steps, then leaves."""

    def __init__(self, address, world, seed):
        super().__init__(daemon=True)
        self._address, self._world = address, world
        self._random = np.random.default_rng(seed)
        self.timesteps = []

    def run(self):
        with connect(self._address) as connection:
            with dm_env_adaptor.join_world(connection, self._world, {}) as env:
                for _ in range(STEPS):
                    move = self._random.integers(0, 6, dtype=np.int8)
                    self.timesteps.append(env.step({"move": move}))


def test_behaviour_28_two_of_each_play_in_one_world(gridworld_address):
    with connect(gridworld_address) as host:
        world = create_world(host, {"min_agents": 4, "max_steps": 9, "seed": 4, "food": 8})
        agents = [PythonAgent(gridworld_address, world, seed) for seed in range(2)]
        for agent in agents:
            agent.start()
        others = subprocess.run(
            [
                "node",
                str(ROOT / "apps/random-agent/dist/main.js"),
                *("--address", gridworld_address, "--world", world, "--agents", "2"),
                *("--steps", str(STEPS), "--seed", "1", "--json"),
            ],
            stdout=subprocess.PIPE,
            timeout=120,
            check=True,
        )
        for agent in agents:
            agent.join(timeout=120)
            assert not agent.is_alive()
        destroy_world(host, world)

    summary = json.loads(others.stdout)
    assert [agent["steps"] for agent in summary["agents"]] == [STEPS, STEPS]
    one, other = (agent.timesteps for agent in agents)
    assert len(one) == len(other) == STEPS
    # While all four agents are joined, they are in the same tick of the same sequence.
    together = STEPS // 2
    for mine, theirs in zip(one[:together], other[:together], strict=True):
        assert mine.step_type == theirs.step_type
        np.testing.assert_array_equal(mine.observation["agents"], theirs.observation["agents"])
        assert mine.observation["agents"][:, 3].sum() == 4
    assert any(step.last() for step in one)
