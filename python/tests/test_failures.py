# SPDX-License-Identifier: Apache-2.0
"""Servers that die, freeze and come back: calls raise errors in time, and the next reset works."""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from dm_env_rpc.v1 import connection
from dm_env_rpc.v1.extensions import properties
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from processes import ROOT
from sample_settings import settings_of

from dm_env_rpc_gym import (
    ConnectionLostError,
    RemoteEnv,
    RemoteError,
    RemoteVectorEnv,
    RequestTimeoutError,
    ServerError,
    UsageError,
)
from dm_env_rpc_gym.pettingzoo import RemoteParallelEnv

TIMEOUT = 2.0
SLOTS = 2
GRIDWORLD = ROOT / "apps/gridworld-server/dist/main.js"
OPTIONS = {
    "create_settings": settings_of("gridworld"),
    "observations": ["step"],
    "timeout": TIMEOUT,
    "connect_timeout": TIMEOUT / 2,
}
PATIENCE = 60.0
PATIENT = {**OPTIONS, "timeout": PATIENCE, "connect_timeout": PATIENCE}
"""Options where nothing is to time out: a machine may pause for seconds."""

CART_POLE = ROOT / "examples/environment/dist/serve.js"
BATCH = {"timeout": TIMEOUT, "connect_timeout": TIMEOUT / 2}


class Server:
    """A server that can be killed, frozen and started again at its address."""

    def __init__(self, program):
        self.port = 0
        self._program = program
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        flags = ["--port", str(self.port)] if self._program == GRIDWORLD else []
        self._process = subprocess.Popen(
            ["node", str(self._program), *flags],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PORT": str(self.port)},
        )
        line = self._process.stdout.readline()
        self.port = int(line.rpartition(":")[2])

    def kill(self):
        self._process.kill()
        self._process.wait()

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture
def server(request):
    kind = getattr(request.node, "callspec", None) and request.node.callspec.params.get("kind")
    server = Server(CART_POLE if kind == "batch" else GRIDWORLD)
    yield server
    server.kill()


class Single(RemoteEnv):
    """One environment with the calls of a vector."""

    def step(self, action):
        return super().step(action[0])


class Parallel(RemoteParallelEnv):
    """A PettingZoo environment with the calls of a vector."""

    def step(self, actions):
        return super().step(dict(zip(self.possible_agents, actions, strict=True)))


def vectors(address, **other):
    options = {**OPTIONS, **other}
    make = functools.partial(RemoteEnv, address, **options)
    return {
        "RemoteEnv": lambda: Single(address, **options),
        "RemoteParallelEnv": lambda: Parallel(address, SLOTS, **options),
        "RemoteVectorEnv": lambda: RemoteVectorEnv(address, SLOTS, **options),
        "SyncVectorEnv": lambda: SyncVectorEnv([make] * SLOTS),
        "batch": lambda: RemoteVectorEnv(address, SLOTS, **{**BATCH, **other}),
    }


def eventually(call):
    """Returns the result of a call, repeated while it times out on a slow machine."""
    end = time.monotonic() + 120
    while True:
        try:
            return call()
        except RequestTimeoutError:
            if time.monotonic() > end:
                raise


def begin(envs):
    """Resets and steps, both again while one times out, and returns the first observations."""

    def both():
        first = envs.reset(seed=1)[0]
        envs.step(np.zeros(SLOTS, np.int64))
        return first

    return eventually(both)


def step_until_error(envs):
    """Returns the first error of a step, and the seconds that this step took."""
    for _ in range(100):
        start = time.monotonic()
        try:
            envs.step(np.zeros(SLOTS, np.int64))
        except RemoteError as error:
            return error, time.monotonic() - start
    raise AssertionError("no error")


KINDS = ["RemoteEnv", "RemoteParallelEnv", "RemoteVectorEnv", "SyncVectorEnv", "batch"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_server_is_an_error_and_the_next_reset_works_when_it_is_back(server, kind):
    envs = eventually(vectors(server.address, timeout=PATIENCE)[kind])
    begin(envs)
    server.kill()
    error, _ = step_until_error(envs)
    assert isinstance(error, ConnectionLostError)
    with pytest.raises(RequestTimeoutError, match="check the address and that the server runs"):
        envs.reset()
    server.start()
    first = begin(envs)
    np.testing.assert_equal(eventually(lambda: envs.reset(seed=1))[0], first)
    assert getattr(envs, "batched", False) == (kind == "batch")
    envs.close()
    envs.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_server_is_an_error_in_time_and_the_next_reset_works(server, kind):
    envs = eventually(vectors(server.address)[kind])
    eventually(lambda: envs.reset(seed=1))
    server.freeze()
    error, seconds = step_until_error(envs)
    assert isinstance(error, RequestTimeoutError)
    assert seconds < TIMEOUT + 20
    with pytest.raises(RequestTimeoutError):
        envs.reset()
    server.thaw()
    begin(envs)
    envs.close()


@pytest.mark.parametrize("kind", KINDS)
def test_closing_never_raises_nor_waits_for_a_frozen_server(server, kind):
    envs = eventually(vectors(server.address)[kind])
    eventually(envs.reset)
    server.freeze()
    envs.close()
    envs.close()


def test_a_reset_works_after_a_restart_even_if_no_call_raised_an_error(server):
    env = RemoteEnv(server.address, **PATIENT)
    env.reset()
    server.kill()
    server.start()
    eventually(env.reset)
    env.step(0)
    env.close()


def test_the_slot_whose_server_died_is_named(gridworld, server):
    with contextlib.closing(RemoteVectorEnv([gridworld, server.address], 4, **PATIENT)) as envs:
        envs.reset()
        server.kill()
        with pytest.raises(ConnectionLostError, match=r"slot [13]: the stream to 127\.0\.0\.1"):
            envs.step(np.zeros(4, np.int64))
        with pytest.raises(UsageError, match="call reset"):
            envs.step(np.zeros(4, np.int64))


@pytest.mark.parametrize("stop", ["kill", "freeze"])
def test_async_vector_env_raises_the_errors_of_its_workers(server, stop):
    timeout = PATIENCE if stop == "kill" else 5 * TIMEOUT
    make = functools.partial(RemoteEnv, server.address, **{**PATIENT, "timeout": timeout})
    envs = AsyncVectorEnv([make] * SLOTS, context="spawn")
    envs.reset(seed=1)
    envs.step(np.zeros(SLOTS, np.int64))
    getattr(server, stop)()
    error, _ = step_until_error(envs)
    assert isinstance(error, (ConnectionLostError, RequestTimeoutError))
    assert "reset() connects again" in str(error)
    envs.close(terminate=True)
    if stop == "freeze":
        server.thaw()
    else:
        server.start()
    again = AsyncVectorEnv([make] * SLOTS, context="spawn")
    again.reset(seed=1)
    again.step(np.zeros(SLOTS, np.int64))
    again.close()


FORKING = """
import os, sys
from dm_env_rpc_gym import RemoteEnv, UsageError

env = RemoteEnv(sys.argv[1])
env.reset()
for call in (lambda: RemoteEnv(sys.argv[1]), lambda: env.step(0), env.reset):
    child = os.fork()
    if child == 0:
        try:
            call()
        except UsageError as error:
            print(error, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
env.step(0)
env.close()
"""


def test_the_error_in_a_forked_child_says_to_use_spawn(gridworld):
    command = [sys.executable, "-c", FORKING, gridworld]
    # gRPC's own handlers of forks can abort the child before it runs a line of Python.
    env = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "false"}
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=120, env=env
    )
    lines = printed.stdout.splitlines()
    assert len(lines) == 3
    assert all('context="spawn"' in line for line in lines)


def test_an_address_without_a_server_is_an_error_within_the_timeout():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        for make in vectors(address).values():
            with pytest.raises(RequestTimeoutError, match="check the address"):
                make()


def test_a_failed_constructor_leaves_no_world_behind_and_no_thread(gridworld):
    def count_worlds():
        with connection.create_secure_channel_and_connect(gridworld) as channel:
            return properties.PropertiesExtension(channel)["worlds.count"]

    before = count_worlds()
    failing = [
        lambda: RemoteEnv(gridworld, observations=["none"]),
        lambda: RemoteEnv(gridworld, join_settings={"none": 1}),
        lambda: RemoteParallelEnv(gridworld, 9, create_settings={"max_agents": 2}),
        lambda: RemoteVectorEnv(gridworld, SLOTS, observations=["none"]),
        lambda: RemoteVectorEnv(gridworld, SLOTS, join_settings={"none": 1}),
    ]
    for make in failing:
        with pytest.raises(RemoteError):
            make()
    assert count_worlds() == before
    names = [thread.name for thread in threading.enumerate()]
    assert [name for name in names if name.startswith("dm-env-rpc-gym")] == []


def test_a_refused_setting_is_the_servers_error(gridworld):
    with pytest.raises(ServerError, match=r"INVALID_ARGUMENT: .*max_steps"):
        RemoteEnv(gridworld, create_settings={"max_steps": 0})


def test_an_environment_can_be_reset_after_an_interrupt_during_a_step(server):
    env = RemoteEnv(server.address, **PATIENT)
    env.reset()
    server.freeze()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def step():
        timer.start()
        env.step(0)

    with pytest.raises(KeyboardInterrupt):
        step()
    timer.join()
    server.thaw()
    env.reset()
    assert env.step(0)[0] == 1
    env.close()


def test_a_reset_that_waits_for_a_second_agent_times_out_with_the_reason(worlds):
    env = eventually(
        lambda: RemoteEnv(worlds["tug"], timeout=2, create_settings=settings_of("tug"))
    )
    with pytest.raises(RequestTimeoutError, match="agent for which the world waits has joined"):
        env.reset()
    env.close()
