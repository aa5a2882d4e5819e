# SPDX-License-Identifier: Apache-2.0
"""Servers for the tests: real processes on free ports."""

import dm_env_rpc
import numpy as np
import pytest
from dm_env import test_utils
from dm_env_rpc.v1 import compliance, tensor_spec_utils
from joining import connect
from processes import serving, serving_worlds

if dm_env_rpc.__version__ == "1.1.6" and np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    # dm_env_rpc 1.1.6 asks np.can_cast about the value of a Python int, which NumPy 2 no
    # longer answers: without this its checks fail on every spec of a narrow integer
    # dtype that has no bounds. With NumPy 1 they run as they are, and so does 1.1.7.
    can_cast = tensor_spec_utils._can_cast
    tensor_spec_utils._can_cast = lambda value, dtype: (
        np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
        if type(value) is int and np.issubdtype(dtype, np.integer)
        else can_cast(value, dtype)
    )


@pytest.fixture(scope="session")
def gridworld_address():
    with serving("gridworld-server") as address:
        yield address


@pytest.fixture(scope="session")
def worlds():
    """Addresses of the servers of src/serve-worlds.ts, by name."""
    with serving_worlds() as addresses:
        yield addresses


@pytest.fixture(scope="session")
def connections():
    """Connections that tests share, by address: grpcio takes a fifth of a second to close one."""
    shared = {}

    def connection(address):
        if address not in shared:
            shared[address] = connect(address)
        return shared[address]

    yield connection
    for connected in shared.values():
        connected.close()


def is_upstream(item):
    """Returns True if a test is inherited from the official packages."""
    method = getattr(getattr(item, "cls", None), item.name, None)
    module = getattr(method, "__module__", "")
    return module.startswith(compliance.__name__) or module == test_utils.__name__


def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("upstream", is_upstream(item)))


def pytest_terminal_summary(terminalreporter):
    ran = {"passed": 0, "failed": 0, "skipped": 0}
    for outcome in ran:
        for report in terminalreporter.stats.get(outcome, []):
            if ("upstream", True) in report.user_properties and report.when in ("call", "setup"):
                ran[outcome] += 1
    if any(ran.values()):
        terminalreporter.write_line(
            f"checks of the official packages, dm-env-rpc {dm_env_rpc.__version__} "
            f"with NumPy {np.__version__}: "
            + ", ".join(f"{count} {outcome}" for outcome, count in ran.items())
        )
