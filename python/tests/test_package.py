# SPDX-License-Identifier: Apache-2.0
"""The package is installed by pip, typed, and in step with the npm packages."""

import json
import subprocess
import sys

from processes import ROOT

PACKAGE = ROOT / "python"

PROGRAM = """
import importlib.metadata, pathlib, sys
import dm_env_rpc_gym
folder = pathlib.Path(dm_env_rpc_gym.__file__).parent
assert folder.is_relative_to(sys.argv[1]), folder
assert (folder / "py.typed").exists()
print(importlib.metadata.version("dm-env-rpc-gym"))
"""


def test_it_installs_with_the_version_of_the_npm_packages(tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    flags = ["--no-deps", "--no-build-isolation", "--target", tmp_path]
    subprocess.run([*pip, *flags, PACKAGE], check=True)
    version = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path],
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    manifest = json.loads((ROOT / "packages/client/package.json").read_text())
    assert version == manifest["version"]
