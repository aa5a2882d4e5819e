# SPDX-License-Identifier: Apache-2.0
"""A gridworld server for the tests to play on: the real process, on a free port."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def gridworld_address():
    server = subprocess.Popen(
        ["node", str(ROOT / "apps/gridworld-server/dist/main.js"), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline().strip()
        assert line.startswith("listening on http://"), line
        yield line.removeprefix("listening on http://")
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0
