# SPDX-License-Identifier: Apache-2.0
"""The Python that pages show for the sample world, run as it stands there."""

import re

import pytest
from conftest import ROOT


@pytest.mark.parametrize("page", ["README.md", "docs/write-an-agent.md"])
def test_the_python_agent_of_a_page_plays_a_sequence(gridworld_address, page):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    names = {}
    exec(code.replace("127.0.0.1:8980", gridworld_address), names)
    assert names["timestep"].last()
    assert names["timestep"].observation["step"] == 20
