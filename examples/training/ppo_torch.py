# SPDX-License-Identifier: Apache-2.0
"""PPO in one file, with PyTorch, in the style of CleanRL.

    pip install ./python torch
    python examples/training/ppo_torch.py --address 127.0.0.1:8980

For discrete actions, over a vector in SameStep mode.
"""

import argparse
import time

import numpy as np
import torch
from dm_env_rpc_gym import RemoteVectorEnv
from torch import nn
from torch.distributions.categorical import Categorical


def layer(inputs, outputs, gain=2**0.5):
    """Returns a linear layer with orthogonal weights."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    """An actor and a critic with two hidden layers each."""

    def __init__(self, inputs, actions, hidden=64):
        super().__init__()
        self.critic = self._perceptron(inputs, hidden, layer(hidden, 1, 1.0))
        self.actor = self._perceptron(inputs, hidden, layer(hidden, actions, 0.01))

    def _perceptron(self, inputs, hidden, last):
        first, second = layer(inputs, hidden), layer(hidden, hidden)
        return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)

    def value(self, seen):
        """Returns the critic's estimate of the return."""
        return self.critic(seen).squeeze(-1)

    def act(self, seen, action=None):
        """Returns an action, by default drawn, with its log-probability, entropy and value."""
        policy = Categorical(logits=self.actor(seen))
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action), policy.entropy(), self.value(seen)


def leaves(observations):
    """Yields the arrays of observations that are dicts of dicts."""
    if isinstance(observations, dict):
        for inner in observations.values():
            yield from leaves(inner)
    else:
        yield np.asarray(observations)


def learn(
    envs,
    total_steps,
    report,
    *,
    seed=1,
    num_steps=32,
    update_epochs=8,
    minibatch_size=256,
    learning_rate=1e-3,
    gamma=0.99,
    gae_lambda=0.95,
    clip_coef=0.2,
    ent_coef=0.01,
    vf_coef=0.5,
    max_grad_norm=0.5,
):
    """Trains an agent; `report` gets the steps so far and the returns of sequences that ended."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    num_envs, start = envs.num_envs, int(envs.single_action_space.start)
    width = sum(leaf.size for leaf in leaves(envs.single_observation_space.sample()))
    agent = Agent(width, int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=learning_rate, eps=1e-5)
    mean, variance, count = np.zeros(width), np.ones(width), 1e-4

    def flat(observations, slots):
        """Observations as rows with a mean of 0 and a variance of 1."""
        rows = np.concatenate([leaf.reshape(slots, -1) for leaf in leaves(observations)], 1)
        normed = np.clip((rows - mean) / np.sqrt(variance + 1e-8), -10, 10)
        return rows, torch.as_tensor(normed, dtype=torch.float32)

    seen = torch.zeros((num_steps, num_envs, width))
    actions = torch.zeros((num_steps, num_envs), dtype=torch.long)
    logprobs, rewards, dones, values = (torch.zeros((num_steps, num_envs)) for _ in range(4))
    observations, _ = envs.reset(seed=seed)
    returns = np.zeros(num_envs)
    for done in range(0, total_steps, num_envs * num_steps):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - done / total_steps)

        # The rollout.
        finished = []
        for step in range(num_steps):
            rows, seen[step] = flat(observations, num_envs)
            share = num_envs / (count + num_envs)
            variance += share * (rows.var(0) - variance + (1 - share) * (rows.mean(0) - mean) ** 2)
            mean += share * (rows.mean(0) - mean)
            count += num_envs
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.act(seen[step])
            observations, reward, terminated, truncated, infos = envs.step(
                actions[step].numpy() + start
            )
            returns += reward
            ended = terminated | truncated
            finished += returns[ended].tolist()
            returns[ended] = 0
            rewards[step] = torch.as_tensor(reward)
            dones[step] = torch.as_tensor(ended)
            for slot in np.flatnonzero(truncated & ~terminated):
                # The sequence was cut short: the critic estimates the rewards after it.
                with torch.no_grad():
                    last = agent.value(flat(infos["final_obs"][slot], 1)[1])
                rewards[step, slot] += gamma * last.item()
        report(done + num_envs * num_steps, finished)

        # Generalized advantage estimation.
        with torch.no_grad():
            following = agent.value(flat(observations, num_envs)[1])
        advantages, advantage = torch.zeros_like(rewards), torch.zeros(num_envs)
        for step in reversed(range(num_steps)):
            surprise = rewards[step] + gamma * following * (1 - dones[step]) - values[step]
            advantage = surprise + gamma * gae_lambda * advantage * (1 - dones[step])
            advantages[step] = advantage
            following = values[step]
        targets = advantages + values

        # The update.
        b_seen, b_actions = seen.reshape(-1, width), actions.reshape(-1)
        b_logprobs, b_advantages = logprobs.reshape(-1), advantages.reshape(-1)
        b_targets = targets.reshape(-1)
        for _ in range(update_epochs):
            order = torch.as_tensor(rng.permutation(num_envs * num_steps))
            for part in order.split(minibatch_size):
                _, logprob, entropy, value = agent.act(b_seen[part], b_actions[part])
                ratio = (logprob - b_logprobs[part]).exp()
                normed = b_advantages[part]
                normed = (normed - normed.mean()) / (normed.std() + 1e-8)
                clipped = ratio.clamp(1 - clip_coef, 1 + clip_coef)
                policy_loss = -torch.min(normed * ratio, normed * clipped).mean()
                value_loss = 0.5 * (value - b_targets[part]).square().mean()
                loss = policy_loss - ent_coef * entropy.mean() + vf_coef * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), max_grad_norm)
                optimizer.step()
    return agent


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1:8980")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--total-steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.perf_counter()

    def show(steps, finished):
        """Prints the mean return of each rollout in which sequences ended."""
        if finished:
            rate = steps / (time.perf_counter() - begun)
            print(f"{steps:,} steps, {rate:,.0f} steps/s, mean return {np.mean(finished):.3g}")

    vector = RemoteVectorEnv(flags.address, flags.num_envs, autoreset_mode="SameStep")
    learn(vector, flags.total_steps, show, seed=flags.seed)
    vector.close()
