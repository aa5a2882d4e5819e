# SPDX-License-Identifier: Apache-2.0
"""The examples in Python: an agent forages, and learners learn."""

import importlib.util
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("world", "steps", "least"), [("cart-pole", 100_000, 200), ("foraging", 60_000, 0.16)]
)
def test_training_learns_and_draws_its_curve(tmp_path, world, steps, least):
    picture = tmp_path / "curve.svg"
    program = ROOT / "examples/training/train.py"
    command = [
        sys.executable,
        program,
        "--world",
        world,
        "--steps",
        str(steps),
        "--picture",
        picture,
    ]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    at_last, at_random = map(float, re.findall(r"([\d.]+) at (?:last|random)", ended.stdout))
    assert at_last > least > at_random
    names = [
        text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert names[-2:] == ["ppo", "random"]
