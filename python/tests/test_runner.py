# SPDX-License-Identifier: Apache-2.0
"""Environments can be called from threads and inside event loops, and need not be closed."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from sample_settings import settings_of

from dm_env_rpc_gym import RemoteEnv, RequestTimeoutError
from dm_env_rpc_gym._runner import Runner


def test_agents_in_two_threads_wait_for_each_other(gridworld):
    settings = settings_of("gridworld", min_agents=2, max_agents=2)
    with (
        RemoteEnv(gridworld, create_settings=settings, observations=["step"]) as one,
        RemoteEnv(gridworld, world=one.world_name, observations=["step"]) as other,
    ):
        seen = []

        def play():
            seen.append(other.reset()[0])
            for _ in range(10):
                seen.append(other.step(0)[0])

        thread = threading.Thread(target=play)
        thread.start()
        mine = [one.reset()[0], *(one.step(0)[0] for _ in range(10))]
        thread.join(timeout=60)
        assert mine == seen == list(range(11))


def test_an_environment_is_played_inside_a_running_loop_as_notebooks_have_one(gridworld):
    async def cell():
        with RemoteEnv(
            gridworld, create_settings=settings_of("gridworld"), observations=["step"]
        ) as env:
            return [env.reset()[0], *(env.step(0)[0] for _ in range(3))]

    assert asyncio.run(cell()) == [0, 1, 2, 3]


def test_a_call_from_a_second_thread_waits_for_its_turn_until_its_deadline():
    runner = Runner()
    begun = threading.Event()

    async def hold():
        begun.set()
        await asyncio.sleep(60)

    def first():
        with pytest.raises(
            RequestTimeoutError, match="first timed out: expected an answer within 2 s"
        ):
            runner.run(hold(), "first", 2)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    with pytest.raises(
        RequestTimeoutError, match=r"second timed out: expected an answer within 0\.1 s"
    ):
        runner.run(hold(), "second", 0.1)
    thread.join(60)
    assert runner.run(asyncio.sleep(0, "third"), "third", 10) == "third"


def test_the_loop_of_a_forgotten_runner_serves_the_next_one():
    runner = Runner()
    loop = runner._loop
    del runner
    assert Runner()._loop is loop


def test_a_deadline_cancels_what_runs_in_a_running_loop_too():
    async def cell():
        start = time.monotonic()
        with pytest.raises(RequestTimeoutError):
            Runner().run(asyncio.sleep(600), "sleeping", 0.2)
        return time.monotonic() - start

    assert asyncio.run(cell()) < 60


FORGETTING = """
import sys
from dm_env_rpc_gym import RemoteEnv

for _ in range(3):
    env = RemoteEnv(sys.argv[1])
    env.reset()
"""


def test_a_program_may_end_without_closing_and_says_nothing(gridworld):
    command = [sys.executable, "-c", FORGETTING, gridworld]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.stderr) == ("", "")
