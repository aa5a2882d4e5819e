# SPDX-License-Identifier: Apache-2.0
"""Our programs, as processes that tests talk to."""

import contextlib
import json
import pathlib
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/interop"


@contextlib.contextmanager
def serving(app, *flags):
    """The address of an app on a free port."""
    server = subprocess.Popen(
        ["node", str(ROOT / f"apps/{app}/dist/main.js"), "--port", "0", *flags],
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


def answers(program, requests):
    """What a program of src/, which answers a line for a line, makes of requests, as they come."""
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
