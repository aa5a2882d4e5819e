# SPDX-License-Identifier: Apache-2.0
"""RemoteEnv keeps Gymnasium's rules on every sample world."""

import warnings

import gymnasium
import numpy as np
import pytest
from conftest import REAL_TIME, SAMPLES
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from processes import ROOT, listening, serving
from sample_settings import options_of, settings_of

import dm_env_rpc_gym
from dm_env_rpc_gym import ActionError, RemoteEnv, ServerError, SpecError, UsageError

ID = f"dm_env_rpc_gym:{dm_env_rpc_gym.ENV_ID}"


@pytest.mark.parametrize("name", SAMPLES)
def test_gymnasiums_check_passes(sample, name):
    with RemoteEnv(sample(name), create_settings=settings_of(name)) as env:
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("name", REAL_TIME)
def test_gymnasiums_check_passes_in_real_time(sample, name):
    options = {"address": sample(name), **options_of(name)}
    with RemoteEnv(**options) as env:
        env.spec = EnvSpec(ID, RemoteEnv, nondeterministic=True, kwargs=options)
        # The check of close() makes a second environment, and the page has only one seat.
        check_env(env, skip_render_check=True, skip_close_check=name == "page")


def test_gymnasiums_check_passes_on_every_dtype(worlds):
    with RemoteEnv(worlds["every-action"]) as env:
        check_env(env, skip_render_check=True)


def test_gymnasiums_check_passes_for_an_env_made_by_its_id(gridworld):
    env = gymnasium.make(ID, address=gridworld, create_settings=settings_of("gridworld"))
    check_env(env.unwrapped)
    env.close()
    env.close()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_seed_gives_the_same_sequences(sample, name):
    def play(env, seed):
        env.action_space.seed(1)
        seen = [env.reset(seed=seed)[0], env.reset()[0]]
        for _ in range(3):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            seen.append(observation)
            if terminated or truncated:
                break
        return seen

    with RemoteEnv(sample(name), create_settings=settings_of(name)) as env:
        one, *others, again = (play(env, seed) for seed in (1, 2, 3, 4, 1))
    np.testing.assert_equal(one, again)
    # Small worlds begin in few ways: one seed may give the sequences of another.
    with pytest.raises(AssertionError):
        np.testing.assert_equal([one] * len(others), others)


def test_a_seed_does_not_reset_a_world_given_by_name_and_warns_once(sample):
    address = sample("freeRunning")
    settings = settings_of("gridworld")
    with RemoteEnv(address, create_settings=settings, observations=["step"]) as owner:
        owner.reset(seed=1)
        owner.step(0)
        with RemoteEnv(address, world=owner.world_name) as guest:
            with pytest.warns(UserWarning, match="accepts no seed: .* only np_random"):
                guest.reset(seed=2)
            numbers = guest.np_random.random(3)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                guest.reset(seed=2)
            np.testing.assert_array_equal(guest.np_random.random(3), numbers)
        observation, _, terminated, truncated, _ = owner.step(0)
        assert observation > 1
        assert not terminated
        assert not truncated


def test_settings_of_a_reset_are_in_its_options(worlds):
    settings = {"size": 2, "map": {"name": "m", "rows": np.array([1, 2], np.int32)}}
    options = {"create_settings": settings, "join_settings": {"team": "red"}}
    with RemoteEnv(worlds["exacting"], **options, observations=["look.team"]) as env:
        assert env.reset()[0] == "red"
        assert env.reset(options={"settings": {"team": "blue"}})[0] == "blue"
        with pytest.raises(ServerError, match=r"INVALID_ARGUMENT: .*colour"):
            env.reset(options={"settings": {"colour": 1}})
        assert env.reset()[0] == "blue"


def test_ends_are_the_worlds_states_whatever_the_discount(worlds):
    with RemoteEnv(worlds["signposts"]) as env:
        env.reset()
        assert env.step(0)[1:4] == (0.0, False, False)
        assert env.step(1)[1:4] == (1.0, True, False)
        env.reset()
        assert env.step(2)[1:4] == (2.0, False, True)
        with pytest.raises(UsageError, match="call reset"):
            env.step(0)


def test_statistics_of_an_episode_are_the_worlds(gridworld):
    env = RemoteEnv(gridworld, create_settings=settings_of("gridworld"), observations=["step"])
    with gymnasium.wrappers.RecordEpisodeStatistics(env) as recorded:
        recorded.reset(seed=5)
        ended = False
        while not ended:
            _, _, terminated, ended, info = recorded.step(0)
        assert not terminated
        assert info["episode"]["l"] == 20


def test_legal_actions_are_the_action_mask(worlds):
    with RemoteEnv(worlds["signposts"]) as env:
        assert isinstance(env.observation_space, spaces.Box)
        _, info = env.reset()
        np.testing.assert_array_equal(info["action_mask"], np.array([1, 1, 1, 0], np.int8))
        info = env.step(0)[4]
        np.testing.assert_array_equal(info["action_mask"], np.array([1, 0, 1, 0], np.int8))
        samples = {int(env.action_space.sample(mask=info["action_mask"])) for _ in range(50)}
        assert samples == {0, 2}


def test_an_action_that_does_not_fit_changes_nothing(worlds):
    with RemoteEnv(worlds["signposts"]) as env:
        env.reset()
        for action in (257, 1.9, 0.99, -1, "0"):
            with pytest.raises(ActionError, match="nothing was sent"):
                env.step(action)
        assert env.step(0)[0] == 1


def test_a_world_that_throws_is_an_error_and_the_next_reset_creates_another(worlds):
    with RemoteEnv(worlds["signposts"]) as env:
        env.reset()
        with pytest.raises(ServerError, match="INTERNAL"):
            env.step(3)
        assert env.reset()[0] == 0
        assert env.step(0)[0] == 1


def test_several_actions_are_a_dict_and_some_can_be_chosen(sample):
    settings = {"create_settings": settings_of("wakeUp")}
    with RemoteEnv(sample("wakeUp"), **settings) as env:
        assert set(env.action_space) == {"move", "sleep"}
        env.reset()
        with pytest.raises(ActionError, match=r"expected a dict of \['move', 'sleep'\]"):
            env.step({"move": 1})
        env.step({"move": 1, "sleep": 2})
    with RemoteEnv(sample("wakeUp"), actions=["move"], **settings) as env:
        assert env.action_space == spaces.Discrete(6)
        env.reset()
        env.step(1)


def test_a_single_observation_comes_bare(gridworld):
    with RemoteEnv(gridworld, observations=["grid"]) as env:
        observation, _ = env.reset()
        assert observation in env.observation_space
        assert observation.dtype == np.uint8
        observation += 1


def test_the_error_for_unknown_names_lists_the_known_ones(gridworld):
    with pytest.raises(SpecError, match=r"observations= .*'grid'.*received \['gird'\]"):
        RemoteEnv(gridworld, observations=["gird"])
    with pytest.raises(TypeError, match=r"options are unknown: .*received \['observation'\]"):
        RemoteEnv(gridworld, observation=["grid"])


def test_the_frame_is_the_observation_rgb(gridworld, worlds):
    env = gymnasium.make(ID, address=gridworld, render_mode="rgb_array", observations=["step"])
    env.reset(seed=1)
    frame = env.render()
    assert frame.shape == (64, 64, 3)
    assert frame.dtype == np.uint8
    env.close()
    with pytest.raises(SpecError, match='render_mode "rgb_array" needs an observation'):
        RemoteEnv(worlds["signposts"], render_mode="rgb_array")
    with RemoteEnv(worlds["signposts"]) as env:
        assert env.metadata["render_modes"] == []


def test_a_world_in_real_time_is_played(worlds):
    flags = ("--clock", "realtime", "--ticks-per-second", "200")
    with serving("gridworld-server", *flags) as address:
        settings = settings_of("gridworld")
        with RemoteEnv(address, create_settings=settings, observations=["step"]) as env:
            last, _ = env.reset()
            ended = False
            while not ended:
                step, _, _, ended, _ = env.step(0)
                assert step >= last
                last = step


def test_a_unix_domain_socket_is_an_address(tmp_path):
    address = f"unix:{tmp_path}/env.sock"
    program = ROOT / "apps/gridworld-server/dist/main.js"
    with listening([program, "--host", address]) as (_, said):
        assert said == address
        with RemoteEnv(said, create_settings=settings_of("gridworld")) as env:
            env.reset(seed=1)
            env.step(0)
