# SPDX-License-Identifier: Apache-2.0
"""Our codec, as a process that answers a line for a line."""

import base64
import json
import subprocess
import threading

from conftest import HERE


def ask(requests):
    """What our codec makes of requests: bytes, or None where it refuses."""
    bridge = subprocess.Popen(
        ["node", str(HERE / "dist/codec-bridge.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def feed():
        for request in requests:
            bridge.stdin.write(json.dumps(request) + "\n")
        bridge.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    answers = [json.loads(line) for line in bridge.stdout]
    assert bridge.wait(timeout=30) == 0
    assert len(answers) == len(requests)
    return [base64.b64decode(one["bytes"]) if "bytes" in one else None for one in answers]


def text(data):
    return base64.b64encode(data).decode()


def unpack_request(tensor):
    return {"do": "unpack", "bytes": text(tensor.SerializeToString())}


def pack_request(dtype, array, compress=False):
    request = {"do": "pack", "dtype": dtype, "shape": array.shape, "raw": "", "compress": compress}
    if dtype == "string":
        request["strings"] = array.reshape(-1).tolist()
    else:
        request["raw"] = text(array.tobytes())
    return request


def spec_request(spec):
    return {"do": "spec", "bytes": text(spec.SerializeToString())}
