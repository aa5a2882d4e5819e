# SPDX-License-Identifier: Apache-2.0
"""The programs in the README run unchanged."""

import re

import pytest
from processes import ROOT

PROGRAMS = re.findall(
    r"(<!-- not run:.*-->\n)?```python\n(.*?)```",
    (ROOT / "python/README.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize("program", [code for not_run, code in PROGRAMS if not not_run])
def test_the_program_steps(sample, program):
    names = {}
    exec(program.replace("127.0.0.1:8980", sample("cart-pole")), names)
    assert names["rewards"].shape == (256,)
    assert names["envs"].batched
    assert names["envs"].closed
