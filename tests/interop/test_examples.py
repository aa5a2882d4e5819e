# SPDX-License-Identifier: Apache-2.0
"""The example in Python: its agent forages."""

import importlib.util

import numpy as np
from processes import ROOT


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_agent_finds_food(gridworld_address):
    agent = load(ROOT / "examples/python-agent/agent.py")
    returns = agent.play(gridworld_address, 10, seed=1)
    assert len(returns) == 10
    assert np.mean(returns) > 0.5
