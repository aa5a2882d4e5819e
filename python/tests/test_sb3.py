# SPDX-License-Identifier: Apache-2.0
"""RemoteVecEnv is a VecEnv of Stable-Baselines3, where that is installed: it needs PyTorch."""

import numpy as np
import pytest
from gymnasium import spaces
from sample_settings import settings_of

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3, which needs PyTorch")

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from dm_env_rpc_gym import RemoteEnv
from dm_env_rpc_gym.sb3 import RemoteVecEnv


def test_ends_and_infos_are_those_of_dummy_vec_env(worlds):
    address = worlds["signposts"]
    referee = DummyVecEnv([lambda: RemoteEnv(address)] * 2)
    envs = RemoteVecEnv(address, 2)
    np.testing.assert_array_equal(envs.reset()[:, 0], referee.reset())
    for actions in ([0, 1], [2, 0], [0, 0]):
        expected, received = referee.step(np.array(actions)), envs.step(np.array(actions))
        np.testing.assert_array_equal(received[0][:, 0], expected[0])
        for one, other in zip(expected[1:3], received[1:3], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
        np.testing.assert_equal(received[3], expected[3])
    np.testing.assert_equal(envs.reset_infos, referee.reset_infos)
    referee.close()
    envs.close()


@pytest.mark.parametrize(
    ("name", "observations"),
    # Without the grid: SB3 would treat it as an image, and it is too small for its image layers.
    [("cart-pole", None), ("gridworld", ["position", "level", "food", "step"]), ("coins", None)],
)
def test_ppo_learns_from_a_sample_world(sample, name, observations):
    options = {"create_settings": settings_of(name), "observations": observations}
    envs = VecMonitor(RemoteVecEnv(sample(name), 4, **options))
    envs.seed(1)
    assert isinstance(envs.action_space, spaces.Discrete)
    model = PPO("MultiInputPolicy", envs, n_steps=32, batch_size=32, n_epochs=1, seed=1)
    model.learn(256)
    envs.close()


def test_frames_are_tiled(gridworld):
    settings = settings_of("gridworld")
    envs = RemoteVecEnv(gridworld, 4, create_settings=settings, render_mode="rgb_array")
    envs.reset()
    assert envs.render().shape == (80, 80, 3)
    envs.close()
