# SPDX-License-Identifier: Apache-2.0
"""The PPO of RLlib, which needs Ray and PyTorch."""

from dm_env_rpc_gym import RemoteVectorEnv
from gymnasium.wrappers.vector import FlattenObservation
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env


def learn_with_rllib(address, world, steps, report):
    """Trains a policy; reports the mean return of each batch of steps."""

    def joined(config):
        return FlattenObservation(RemoteVectorEnv(address, config["num_envs"], **world["options"]))

    register_env("remote", joined)
    config = (
        PPOConfig()
        .environment("remote")
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=world["slots"],
            gym_env_vectorize_mode="vector_entry_point",
        )
        .training(lr=1e-3, train_batch_size_per_learner=2048, minibatch_size=256, num_epochs=8)
        .debugging(seed=1)
    )
    algorithm = config.build_algo()
    so_far = 0
    while so_far < steps:
        sampled = algorithm.train()["env_runners"]
        so_far = int(sampled["num_env_steps_sampled_lifetime"])
        report(min(so_far, steps), [float(sampled["episode_return_mean"])])
    algorithm.stop()
