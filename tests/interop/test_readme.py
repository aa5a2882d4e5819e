# SPDX-License-Identifier: Apache-2.0
"""The Python that README.md shows, run as it stands there."""

import re

from conftest import ROOT


def test_the_python_agent_of_the_readme_plays_a_sequence(gridworld_address):
    readme = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names = {}
    exec(code.replace("127.0.0.1:8980", gridworld_address), names)
    assert names["timestep"].last()
    assert names["timestep"].observation["step"] == 20
