# SPDX-License-Identifier: Apache-2.0
"""The environments keep PettingZoo's rules on every sample world."""

import types

import numpy as np
import pytest
from conftest import FOR_TWO, OWN, REAL_TIME, SAMPLES
from gymnasium import spaces
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.max_cycles_test import max_cycles_test
from pettingzoo.utils import BaseParallelWrapper
from pettingzoo.utils.conversions import parallel_to_aec
from sample_settings import options_of, settings_of

from dm_env_rpc_gym import ActionError, ServerError, UsageError
from dm_env_rpc_gym._agents import AgentsOnStreams
from dm_env_rpc_gym._options import Caller
from dm_env_rpc_gym.pettingzoo import RemoteAECEnv, RemoteParallelEnv


class OverStreams(RemoteParallelEnv):
    """A stream for each agent, as over a server without seats."""

    def _join(self, address, num_agents, options):
        caller = Caller(options)
        return AgentsOnStreams(caller, caller.host(address), options, num_agents)


class Masked(BaseParallelWrapper):
    """The mask in the observation, where PettingZoo's parallel test looks for it."""

    def __init__(self, env):
        super().__init__(env)
        self._spaces = {
            agent: spaces.Dict(
                {
                    "observation": env.observation_space(agent),
                    "action_mask": spaces.MultiBinary(int(env.action_space(agent).n)),
                }
            )
            for agent in env.possible_agents
        }

    def observation_space(self, agent):
        return self._spaces[agent]

    def reset(self, seed=None, options=None):
        observations, infos = self.env.reset(seed=seed, options=options)
        return self._masked(observations, infos), infos

    def step(self, actions):
        observations, *ends, infos = self.env.step(actions)
        return self._masked(observations, infos), *ends, infos

    def _masked(self, observations, infos):
        return {
            agent: {"observation": observation, "action_mask": infos[agent]["action_mask"]}
            for agent, observation in observations.items()
        }


def agents_of(name):
    """Returns the number of agents that play: one where each has an environment of its own."""
    if name in (*OWN, "page"):
        return 1
    return 2 if name in FOR_TWO else 3


@pytest.fixture
def made_aec(sample):
    """Makes environments of a sample world in which one agent acts at a time, and closes them."""
    envs = []

    def make(name, max_steps=20, **settings):
        options = options_of(name, max_steps)
        if settings:
            options["create_settings"] |= settings
        envs.append(RemoteAECEnv(sample(name), agents_of(name), **options, timeout=30))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


@pytest.fixture(params=["one stream", "streams"])
def made(sample, request):
    """Makes environments of a sample world, and closes them."""
    envs = []
    one_stream = request.param == "one stream"
    kind = RemoteParallelEnv if one_stream else OverStreams

    def make(name, max_steps=20, *, agents=None, together=not one_stream, **settings):
        # Over streams agents have to act together: not in turns, and without sleeping for
        # different times.
        alone = name == "turns" and together
        options = options_of(name, max_steps)
        if settings:
            options["create_settings"] |= settings
        envs.append(
            kind(
                sample(name),
                1 if alone else agents or agents_of(name),
                **options,
                actions=["move"] if name == "wakeUp" and together else None,
                timeout=30,
            )
        )
        assert envs[-1].one_stream == (one_stream and name not in OWN)
        return envs[-1]

    make.one_stream = one_stream
    yield make
    for env in envs:
        env.close()


@pytest.mark.parametrize("name", [*SAMPLES, *REAL_TIME, "tug"])
@pytest.mark.filterwarnings("error:Live agent|Agent was given|No agents")
def test_pettingzoos_parallel_test_passes(made, name):
    env = made(name)
    parallel_api_test(env, num_cycles=100)
    env.close()
    env.close()


@pytest.mark.filterwarnings("error:Live agent|Agent was given|No agents")
def test_pettingzoos_parallel_test_passes_on_a_game_in_turns_by_its_masks(worlds):
    env = RemoteParallelEnv(worlds["tic-tac-toe"], 2, timeout=30)
    parallel_api_test(Masked(env), num_cycles=100)
    env.close()


@pytest.mark.parametrize("name", [*SAMPLES, *REAL_TIME, *FOR_TWO])
def test_pettingzoos_test_passes_with_agents_one_at_a_time(made_aec, name):
    env = made_aec(name)
    api_test(env, num_cycles=100)
    env.close()
    env.close()


@pytest.mark.parametrize("name", [*SAMPLES, "tug"])
def test_pettingzoos_seed_tests_pass(made, name):
    # On this clock, each step advances the world alone: over several streams, what agents observe
    # depends on the order in which their steps arrive.
    agents = 1 if name == "freeRunning" and not made.one_stream else None
    parallel_seed_test(lambda: made(name, agents=agents), num_cycles=10)
    seed_test(lambda: parallel_to_aec(made(name, agents=agents)), num_cycles=10)


@pytest.mark.parametrize("name", [*SAMPLES, *FOR_TWO])
def test_pettingzoos_seed_test_passes_with_agents_one_at_a_time(made_aec, name):
    seed_test(lambda: made_aec(name), num_cycles=10)


@pytest.mark.parametrize("name", ["gridworld", "freeRunning", "coins", "race", "tug"])
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


@pytest.mark.parametrize("name", ["gridworld", "freeRunning", "turns", "wakeUp", "cart-pole"])
def test_pettingzoos_max_cycles_test_passes(made, name):
    # No agent can load this food, so it does not end the sequence early.
    heavy = {} if name == "cart-pole" else {"min_food_level": 85, "max_food_level": 85}
    # Without a common clock, each agent's step is a tick.
    options = {"together": True, "agents": 1 if name == "freeRunning" else None, **heavy}
    module = types.SimpleNamespace(
        parallel_env=lambda max_cycles: made(name, max_cycles, **options),
        env=lambda max_cycles: parallel_to_aec(made(name, max_cycles, **options)),
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


def test_agents_that_take_turns_are_asked_one_at_a_time(worlds):
    env = RemoteAECEnv(worlds["tic-tac-toe"], 2)
    with pytest.raises(UsageError, match="call reset"):
        env.step(0)
    for _ in range(2):
        env.reset(seed=1)
        # The first player has the left column after its third move.
        for turn, field in enumerate([0, 1, 3, 4, 6]):
            assert env.agent_selection == f"agent_{turn % 2}"
            observation, reward, terminated, truncated, info = env.last()
            assert np.count_nonzero(observation) == turn
            np.testing.assert_array_equal(info["action_mask"], observation == 0)
            assert (reward, terminated, truncated) == (0, False, False)
            env.step(field)
        ends = []
        for agent in env.agent_iter():
            ends.append((agent, *env.last()[1:4]))
            env.step(None)
        assert ends == [("agent_0", 1, True, False), ("agent_1", -1, True, False)]
    env.close()


def test_after_an_illegal_move_the_same_agent_moves_again(worlds):
    env = RemoteAECEnv(worlds["tic-tac-toe"], 2)
    env.reset()
    env.step(4)
    for _ in range(2):
        with pytest.raises(ServerError, match="expected a free field, received 4"):
            env.step(4)
        assert env.agent_selection == "agent_1"
        assert env.agents == ["agent_0", "agent_1"]
    env.step(0)
    assert env.agent_selection == "agent_0"
    for move, mover in ((3, "agent_1"), (1, "agent_0"), (5, None)):
        env.step(move)
        assert mover is None or env.agent_selection == mover
    assert env.terminations == {"agent_0": True, "agent_1": True}
    env.close()


def test_agents_that_act_together_are_asked_in_order_and_step_once(gridworld):
    settings = settings_of("gridworld")
    env = RemoteAECEnv(gridworld, 3, create_settings=settings, observations=["step"])
    env.reset(seed=1)
    for step in range(4):
        for agent in env.possible_agents:
            assert env.agent_selection == agent
            assert env.last()[0] == step
            for bad in (257, 1.9, -1):
                with pytest.raises(ActionError, match="nothing was sent"):
                    env.step(bad)
            env.step(0)
    env.close()


def test_an_invalid_action_of_one_agent_sends_no_actions_and_the_next_step_works(gridworld):
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
