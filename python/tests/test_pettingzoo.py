# SPDX-License-Identifier: Apache-2.0
"""RemoteParallelEnv keeps PettingZoo's rules on every sample world."""

import types

import numpy as np
import pytest
from conftest import SAMPLES
from pettingzoo.test import parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.max_cycles_test import max_cycles_test
from pettingzoo.utils.conversions import parallel_to_aec
from sample_settings import settings_of

from dm_env_rpc_gym import ActionError, UsageError
from dm_env_rpc_gym._agents import AgentsOnStreams
from dm_env_rpc_gym._options import Caller
from dm_env_rpc_gym.pettingzoo import RemoteParallelEnv

OWN = ("cart-pole", "catch")
"""Worlds that give each agent an environment of its own."""


class OverStreams(RemoteParallelEnv):
    """A stream for each agent, as over a server without seats."""

    def _join(self, address, num_agents, options):
        caller = Caller(options)
        return AgentsOnStreams(caller, caller.host(address), options, num_agents)


@pytest.fixture(params=["one stream", "streams"])
def made(sample, request):
    """Makes environments of a sample world, and closes them."""
    envs = []
    one_stream = request.param == "one stream"
    kind = RemoteParallelEnv if one_stream else OverStreams

    def make(name, max_steps=20, *, together=not one_stream, **settings):
        # Each agent of the environment is alone in its own. Over streams agents have to act
        # together: not in turns, and without sleeping for different times.
        alone = name in OWN or (name == "turns" and together)
        envs.append(
            kind(
                sample(name),
                1 if alone else 2 if name == "tug" else 3,
                create_settings=settings_of(name, max_steps, **settings),
                actions=["move"] if name == "wakeUp" and together else None,
                timeout=30,
            )
        )
        assert envs[-1].one_stream == (one_stream and name not in OWN)
        return envs[-1]

    yield make
    for env in envs:
        env.close()


@pytest.mark.parametrize("name", [*SAMPLES, "tug"])
@pytest.mark.filterwarnings("error:.*agent")
def test_pettingzoos_parallel_test_passes(made, name):
    env = made(name)
    parallel_api_test(env, num_cycles=100)
    env.close()
    env.close()


@pytest.mark.parametrize("name", [*SAMPLES, "tug"])
def test_pettingzoos_seed_tests_pass(made, name):
    parallel_seed_test(lambda: made(name), num_cycles=10)
    seed_test(lambda: parallel_to_aec(made(name)), num_cycles=10)


@pytest.mark.parametrize("name", ["gridworld", "freeRunning", "coins", "tug"])
def test_one_stream_and_many_play_the_same_and_in_the_order_of_the_agents(sample, name):
    more = {"max_agents": 6} if name in ("gridworld", "freeRunning") else {}
    settings, agents = settings_of(name, 100, **more), 2 if name == "tug" else 6
    one, other = (
        kind(sample(name), agents, create_settings=settings)
        for kind in (RemoteParallelEnv, OverStreams)
    )
    assert one.one_stream
    assert not other.one_stream
    for agent in one.possible_agents:
        assert one.observation_space(agent) == other.observation_space(agent)
        assert one.action_space(agent) == other.action_space(agent)
    for seed in range(3):
        np.testing.assert_equal(one.reset(seed=seed), other.reset(seed=seed))
        moves = np.random.default_rng(seed)
        while one.agents:
            space = one.action_space("agent_0")
            actions = {agent: space.start + moves.integers(space.n) for agent in one.agents}
            np.testing.assert_equal(one.step(actions), other.step(actions))
            assert one.agents == other.agents
    one.close()
    other.close()


@pytest.mark.parametrize("name", ["gridworld", "turns", "wakeUp", "cart-pole"])
def test_pettingzoos_max_cycles_test_passes(made, name):
    # Food that none can carry is never gone, which would end a sequence before its time.
    heavy = {} if name == "cart-pole" else {"min_food_level": 85, "max_food_level": 85}
    module = types.SimpleNamespace(
        parallel_env=lambda max_cycles: made(name, max_cycles, together=True, **heavy),
        env=lambda max_cycles: parallel_to_aec(made(name, max_cycles, together=True, **heavy)),
    )
    max_cycles_test(module)


def test_agents_that_take_turns_wait_on_one_stream(sample):
    settings = settings_of("turns", 100)
    env = RemoteParallelEnv(sample("turns"), 3, create_settings=settings, observations=["step"])

    def waiting(infos):
        return [agent for agent, info in infos.items() if info.get("waiting")]

    for _ in range(2):
        _, infos = env.reset(seed=1)
        for turn in range(5):
            assert waiting(infos) == [a for a in env.agents if a != f"agent_{turn % 3}"]
            observations, _, _, _, infos = env.step(dict.fromkeys(env.agents, 0))
            assert max(observations.values()) == turn + 1
    env.close()


def test_a_game_in_turns_is_played_by_its_masks(worlds):
    env = RemoteParallelEnv(worlds["tic-tac-toe"], 2)
    moves = np.random.default_rng(1)
    for seed in range(20):
        observations, infos = env.reset(seed=seed)
        marked, rewards = 0, {}
        while env.agents:
            [player] = [agent for agent in env.agents if not infos[agent].get("waiting")]
            [legal] = np.nonzero(infos[player]["action_mask"])
            assert np.array_equal(legal, np.flatnonzero(observations[player] == 0))
            actions = {agent: moves.choice(legal) for agent in env.agents}
            observations, rewards, terminated, truncated, infos = env.step(actions)
            marked += 1
            assert not any(truncated.values())
            assert all(terminated.values()) or not any(terminated.values())
        assert 5 <= marked <= 9
        assert sum(rewards.values()) == 0
    env.close()


def test_one_bad_action_is_sent_for_nobody_and_the_next_answers_are_right(gridworld):
    settings = settings_of("gridworld")
    env = RemoteParallelEnv(gridworld, 2, create_settings=settings, observations=["step"])
    env.reset(seed=1)
    for bad in (257, 1.9, -1):
        with pytest.raises(ActionError, match="nothing was sent"):
            env.step({"agent_0": 0, "agent_1": bad})
    with pytest.raises(ActionError, match="expected one for each of"):
        env.step({"agent_0": 0})
    for expected in (1, 2, 3):
        observations = env.step({"agent_0": 0, "agent_1": 0})[0]
        assert observations == {"agent_0": expected, "agent_1": expected}
    env.close()


def test_ends_are_the_worlds_states_and_masks_are_infos(worlds):
    env = RemoteParallelEnv(worlds["signposts"], 1)
    _, infos = env.reset()
    np.testing.assert_array_equal(infos["agent_0"]["action_mask"], np.array([1, 1, 1, 0], np.int8))
    assert env.step({"agent_0": 1})[2:4] == ({"agent_0": True}, {"agent_0": False})
    assert env.agents == []
    env.reset()
    assert env.step({"agent_0": 2})[2:4] == ({"agent_0": False}, {"agent_0": True})
    env.close()
    with pytest.raises(UsageError, match="closed"):
        env.reset()


def test_the_frame_is_what_the_first_agent_sees(gridworld):
    settings = settings_of("gridworld")
    env = RemoteParallelEnv(
        gridworld, 2, create_settings=settings, observations=["step"], render_mode="rgb_array"
    )
    env.reset(seed=1)
    assert env.render().shape == (40, 40, 3)
    env.close()
