# SPDX-License-Identifier: Apache-2.0
"""Our programs, as processes for tests."""

import contextlib
import json
import os
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/interop"


@contextlib.contextmanager
def listening(command, **env):
    """Starts a process that prints its address; returns (process, address)."""
    server = subprocess.Popen(
        ["node", *map(str, command)], stdout=subprocess.PIPE, text=True, env={**os.environ, **env}
    )
    try:
        line = server.stdout.readline().strip()
        assert line.startswith("listening on "), line
        yield server, line.removeprefix("listening on ").removeprefix("http://")
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0


@contextlib.contextmanager
def serving(app, *flags):
    """Starts an app on a free port and returns its address."""
    program = ROOT / f"apps/{app}/dist/main.js"
    with listening([program, "--port", "0", *flags]) as (_, address):
        yield address


@contextlib.contextmanager
def serving_worlds():
    """Addresses of the servers of src/serve-worlds.ts, by name."""
    server = subprocess.Popen(
        ["node", str(HERE / "dist/serve-worlds.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield json.loads(server.stdout.readline())
    finally:
        server.stdin.close()
        assert server.wait(timeout=30) == 0


def answers(program, requests):
    """Yields the answers of a program of src/, which answers each line with a line."""
    bridge = subprocess.Popen(
        ["node", str(HERE / f"dist/{program}.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def feed():
        for request in requests:
            bridge.stdin.write(json.dumps(request) + "\n")
        bridge.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    for line in bridge.stdout:
        yield json.loads(line)
    assert bridge.wait(timeout=30) == 0
