# SPDX-License-Identifier: Apache-2.0
"""Runs the Python that pages show for the sample world."""

import re

import pytest
from processes import ROOT

# tests/docs follows these from an empty folder, with the agents that they show.
ELSEWHERE = {"docs/expose-your-game.md", "docs/train.md"}

BLOCKS = [
    pytest.param(code, id=f"{path}-{number}")
    for pattern in ("*.md", "docs/**/*.md", "packages/*/README.md")
    for path in sorted(str(page.relative_to(ROOT)) for page in ROOT.glob(pattern))
    if path not in ELSEWHERE and "node_modules" not in path
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), re.DOTALL), 1
    )
]


def test_pages_show_agents():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS)
def test_the_python_agent_of_a_page_plays_a_sequence(gridworld_address, code):
    names = {}
    exec(code.replace("127.0.0.1:8980", gridworld_address), names)
    if "timestep" in names:
        assert names["timestep"].last()
        assert names["timestep"].observation["step"] == 20
    else:
        assert names["terminated"] or names["truncated"]
        assert names["observation"]["step"] == 20
