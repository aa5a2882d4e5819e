# SPDX-License-Identifier: Apache-2.0
"""RemoteVectorEnv behaves like Gymnasium's SyncVectorEnv with the same number of RemoteEnv."""

import functools
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from conftest import OWN, REAL_TIME, SAMPLES
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from sample_settings import options_of, settings_of

import dm_env_rpc_gym
from dm_env_rpc_gym import ActionError, RemoteEnv, RemoteVectorEnv, ServerError, UsageError

SLOTS = 3


def both(address, mode, **options):
    """Returns the referee, a SyncVectorEnv, and the RemoteVectorEnv to compare with it."""
    make = functools.partial(RemoteEnv, address, **options)
    referee = SyncVectorEnv([make] * SLOTS, autoreset_mode=mode)
    return referee, RemoteVectorEnv(address, SLOTS, autoreset_mode=mode, **options)


def assert_same(expected, received):
    """Observations, rewards, ends and infos alike, types and dtypes included."""
    assert data_equivalence(expected, received, exact=True), (expected, received)


def sampled_actions(envs, steps):
    """Actions of all slots, drawn slot by slot: Box cannot draw integers of 64 bits in a batch."""
    space = envs.single_action_space
    space.seed(1)
    for _ in range(steps):
        rows = [space.sample() for _ in range(envs.num_envs)]
        yield concatenate(space, rows, create_empty_array(space, envs.num_envs))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", SAMPLES)
def test_a_vector_is_gymnasiums_own(sample, name, mode):
    max_steps = 5 if name == "cart-pole" else 4
    referee, envs = both(sample(name), mode, create_settings=settings_of(name, max_steps))
    with closing(referee), closing(envs):
        assert envs.batched == (name in OWN)
        assert envs.observation_space == referee.observation_space
        assert envs.action_space == referee.action_space
        assert envs.single_observation_space == referee.single_observation_space
        assert envs.single_action_space == referee.single_action_space
        assert envs.metadata == referee.metadata
        assert_same(referee.reset(seed=7), envs.reset(seed=7))
        referee.action_space.seed(1)
        for _ in range(12):
            actions = referee.action_space.sample()
            expected = referee.step(actions)
            assert_same(expected, envs.step(actions))
            ended = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                mask = {"reset_mask": ended}
                assert_same(referee.reset(options=dict(mask)), envs.reset(options=mask))
        seeds = [5, None, 9]
        referee.reset(seed=seeds)
        envs.reset(seed=seeds)
        some = {"reset_mask": np.array([True, False, True])}
        assert_same(referee.reset(seed=3, options=dict(some)), envs.reset(seed=3, options=some))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", REAL_TIME)
def test_a_vector_in_real_time_restarts_as_gymnasiums_own(sample, name, mode):
    # No seed repeats a sequence, so only the form is compared, and where sequences begin.
    slots = 1 if name == "page" else SLOTS
    options = options_of(name, 4)
    make = functools.partial(RemoteEnv, sample(name), **options)
    with closing(SyncVectorEnv([make] * slots, autoreset_mode=mode)) as referee:
        expected = referee.reset()
        forms = referee.observation_space, referee.action_space, referee.metadata
    with closing(RemoteVectorEnv(sample(name), slots, autoreset_mode=mode, **options)) as envs:
        assert (envs.observation_space, envs.action_space, envs.metadata) == forms
        observations, infos = envs.reset()
        assert infos == expected[1]
        ended = np.zeros(slots, np.bool_)
        restarted = False
        while not restarted:
            assert observations in envs.observation_space
            if mode is AutoresetMode.DISABLED and ended.any():
                observations, infos = envs.reset(options={"reset_mask": ended})
                restarted, ended = True, np.zeros(slots, np.bool_)
                continue
            before = ended
            observations, rewards, terminated, truncated, infos = envs.step(
                envs.action_space.sample()
            )
            ended = terminated | truncated
            assert rewards.dtype == np.float64
            if mode is AutoresetMode.NEXT_STEP:
                assert not (ended & before).any()
                assert not rewards[before].any()
                restarted = before.any()
            if mode is AutoresetMode.SAME_STEP and ended.any():
                np.testing.assert_array_equal(infos["_final_obs"], ended)
                restarted = True


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ends_and_action_masks_of_slots_are_gymnasiums_own(worlds, mode):
    referee, envs = both(worlds["signposts"], mode)
    with closing(referee), closing(envs):
        assert_same(referee.reset(), envs.reset())
        for actions in ([0, 1, 0], [0, 0, 2], [1, 0, 0], [0, 0, 0]):
            expected = referee.step(np.array(actions))
            assert_same(expected, envs.step(np.array(actions)))
            ended = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                mask = {"reset_mask": ended}
                assert_same(referee.reset(options=dict(mask)), envs.reset(options=mask))


def test_every_dtype_is_batched_as_gymnasium_does(worlds):
    referee, envs = both(worlds["every-action"], "NextStep")
    with closing(referee), closing(envs):
        assert_same(referee.reset(), envs.reset())


def test_a_vector_is_made_by_its_id(gridworld):
    envs = gymnasium.make_vec(
        f"dm_env_rpc_gym:{dm_env_rpc_gym.ENV_ID}",
        num_envs=2,
        address=gridworld,
        create_settings=settings_of("gridworld"),
        render_mode="rgb_array",
    )
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    recorded.reset(seed=1)
    for _ in range(20):
        *_, infos = recorded.step(np.array([0, 0]))
    np.testing.assert_array_equal(infos["episode"]["l"], [20, 20])
    frames = envs.render()
    assert [frame.shape for frame in frames] == [(40, 40, 3)] * 2
    recorded.close()
    recorded.close()


def test_slots_are_distributed_over_the_addresses(sample):
    addresses = [sample("gridworld"), sample("freeRunning")]
    settings = settings_of("gridworld")
    with closing(RemoteVectorEnv(addresses, SLOTS, create_settings=settings)) as envs:
        one, other, again = (session._host for session in envs._slots._sessions.values())
        assert one is again
        assert [one.address, other.address] == addresses
        envs.reset(seed=1)
        envs.step(np.zeros(SLOTS, np.int64))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_actions_and_observations_of_every_dtype_are_batched(worlds, mode):
    referee, envs = both(worlds["mirror"], mode)
    with closing(referee), closing(envs):
        assert envs.batched
        assert envs.single_action_space == referee.single_action_space
        assert envs.single_observation_space == referee.single_observation_space
        assert_same(referee.reset(), envs.reset())
        for actions in sampled_actions(envs, 7):
            expected = referee.step(actions)
            assert_same(expected, envs.step(actions))
            ended = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                mask = {"reset_mask": ended}
                assert_same(referee.reset(options=dict(mask)), envs.reset(options=mask))


def test_an_action_that_does_not_fit_sends_no_actions(worlds):
    with closing(RemoteVectorEnv(worlds["signposts"], SLOTS)) as envs:
        envs.reset()
        for bad in ([0, 0, 257], [0, 1.9, 0], [0, 0], 0):
            with pytest.raises(ActionError, match="nothing was sent"):
                envs.step(np.array(bad))
        observations = envs.step(np.array([0, 0, 0]))[0]
        np.testing.assert_array_equal(observations, [1, 1, 1])


def test_a_slot_that_fails_is_truncated_and_the_others_continue(worlds):
    with closing(RemoteVectorEnv(worlds["signposts"], SLOTS)) as envs:
        envs.reset()
        _, _, terminated, truncated, _ = envs.step(np.array([0, 3, 0]))
        np.testing.assert_array_equal(terminated, [False] * SLOTS)
        np.testing.assert_array_equal(truncated, [False, True, False])
        np.testing.assert_array_equal(envs.step(np.array([0, 0, 0]))[0], [2, 0, 2])


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("name", ["cart-pole", "mirror", "signposts"])
def test_slots_of_several_addresses_are_one_vector(sample, worlds, name, mode):
    address = sample(name) if name == "cart-pole" else worlds[name]
    options = {"create_settings": settings_of(name, 3)} if name == "cart-pole" else {}
    one = RemoteVectorEnv(address, 5, autoreset_mode=mode, **options)
    two = RemoteVectorEnv([address, address], 5, autoreset_mode=mode, **options)
    with closing(one), closing(two):
        assert len(two._slots._batches) == 2
        assert_same(one.reset(seed=1), two.reset(seed=1))
        for actions in sampled_actions(one, 8):
            if name == "signposts":
                actions %= 3
            expected = one.step(actions)
            assert_same(expected, two.step(actions))
            ended = expected[2] | expected[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                mask = {"reset_mask": ended}
                assert_same(one.reset(options=dict(mask)), two.reset(options=mask))


def test_misuse_is_an_error(worlds):
    with closing(RemoteVectorEnv(worlds["signposts"], SLOTS, autoreset_mode="Disabled")) as envs:
        with pytest.raises(UsageError, match="call reset"):
            envs.step(np.array([0, 0, 0]))
        envs.reset()
        envs.step(np.array([0, 1, 0]))
        with pytest.raises(UsageError, match=r"slots \[1\] have ended"):
            envs.step(np.array([0, 0, 0]))
        with pytest.raises(UsageError, match="reset_mask"):
            envs.reset(options={"reset_mask": np.zeros(SLOTS, np.bool_)})
        with pytest.raises(UsageError, match="seed has the wrong length"):
            envs.reset(seed=[1])
    with pytest.raises(UsageError, match="closed"):
        envs.reset()
    with pytest.raises(UsageError, match="num_envs"):
        RemoteVectorEnv(worlds["signposts"], 0)


def test_more_slots_than_a_connection_has_streams(gridworld):
    settings = settings_of("gridworld")
    options = {"create_settings": settings, "observations": ["step"]}
    with closing(RemoteVectorEnv(gridworld, 300, **options)) as envs:
        assert not envs.batched
        envs.reset()
        observations = envs.step(np.zeros(300, np.int64))[0]
        np.testing.assert_array_equal(observations, np.ones(300))


def test_a_batch_has_thousands_of_slots(worlds):
    with closing(RemoteVectorEnv(worlds["signposts"], 16384)) as envs:
        assert envs.batched
        envs.reset(seed=1)
        actions = np.random.default_rng(1).integers(3, size=16384)
        _, _, terminated, truncated, _ = envs.step(actions)
        np.testing.assert_array_equal(terminated, actions == 1)
        np.testing.assert_array_equal(truncated, actions == 2)


def test_more_slots_than_the_servers_limit_are_an_error(worlds):
    with pytest.raises(ServerError, match="RESOURCE_EXHAUSTED"):
        RemoteVectorEnv(worlds["mirror"], 10_000_000)
