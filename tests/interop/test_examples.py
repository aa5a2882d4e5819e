# SPDX-License-Identifier: Apache-2.0
"""The examples in Python: the agent forages, the wrappers pass the checks of their libraries."""

import importlib.util
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test
from processes import ROOT

WRAPPERS = ROOT / "examples/python-wrappers"
SETTINGS = {"max_steps": 20, "seed": 3}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wrappers(monkeypatch):
    monkeypatch.syspath_prepend(str(WRAPPERS))
    yield lambda name: load(WRAPPERS / name)
    sys.modules.pop("spaces_of_specs", None)


def test_the_agent_finds_food(gridworld_address):
    agent = load(ROOT / "examples/python-agent/agent.py")
    returns = agent.play(gridworld_address, 10, seed=1)
    assert len(returns) == 10
    assert np.mean(returns) > 0.5


@pytest.mark.parametrize("observations", [None, ["grid"], ["agents", "food", "step"]])
def test_gymnasiums_check_passes(gridworld_address, wrappers, observations):
    env = wrappers("gymnasium_env.py").RemoteEnv(
        gridworld_address, SETTINGS, {"name": "ada"}, observations
    )
    check_env(env, skip_render_check=True)
    env.close()
    env.close()


def test_gymnasiums_wrappers_and_ends_are_those_of_the_world(gridworld_address, wrappers):
    remote = wrappers("gymnasium_env.py").RemoteEnv
    with remote(gridworld_address, SETTINGS, observations=["step"]) as env:
        recorded = gymnasium.wrappers.RecordEpisodeStatistics(env)
        recorded.reset(seed=5)
        ended = False
        while not ended:
            _, _, terminated, truncated, info = recorded.step({"move": 0})
            ended = terminated or truncated
        assert truncated and not terminated
        assert info["episode"]["l"] == 20
    layout = {"layout": "a1", "max_steps": 20}
    with remote(gridworld_address, layout) as env:
        env.reset()
        assert env.step({"move": 5})[1:4] == (1.0, True, False)


def test_the_same_seed_gives_the_same_board(gridworld_address, wrappers):
    with wrappers("gymnasium_env.py").RemoteEnv(gridworld_address, SETTINGS) as env:
        boards = [env.reset(seed=seed)[0]["rgb"].tobytes() for seed in (1, 2, 1)]
    assert boards[0] == boards[2] != boards[1]


def test_pettingzoos_parallel_test_passes(gridworld_address, wrappers):
    env = wrappers("pettingzoo_env.py").RemoteParallelEnv(
        gridworld_address, 3, {**SETTINGS, "min_agents": 3}
    )
    parallel_api_test(env, num_cycles=200)
    env.close()
    env.close()
