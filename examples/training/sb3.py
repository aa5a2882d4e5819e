# SPDX-License-Identifier: Apache-2.0
"""The PPO of Stable-Baselines3, which needs PyTorch."""

from dm_env_rpc_gym.sb3 import RemoteVecEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor


class _Report(BaseCallback):
    def __init__(self, report):
        super().__init__()
        self._report = report

    def _on_step(self):
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self._report(self.num_timesteps, ended)
        return True


def learn_with_sb3(address, world, steps, report):
    """Trains a policy; reports as `ppo.learn` does."""
    envs = VecMonitor(RemoteVecEnv(address, world["slots"], **world["options"]))
    model = PPO(
        "MultiInputPolicy",
        envs,
        learning_rate=lambda left: 1e-3 * left,
        n_steps=32,
        batch_size=256,
        n_epochs=8,
        ent_coef=0.01,
        seed=1,
    )
    model.learn(steps, callback=_Report(report))
    envs.close()
