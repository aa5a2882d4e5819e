# SPDX-License-Identifier: Apache-2.0
"""PPO in one file, with only NumPy: for discrete actions, over a vector in SameStep mode."""

import numpy as np
from gymnasium import spaces


class Network:
    """A perceptron with two hidden layers of tanh, trained by Adam."""

    def __init__(self, inputs, outputs, scale, random, hidden=64):
        widths = [(inputs, hidden, 2**0.5), (hidden, hidden, 2**0.5), (hidden, outputs, scale)]
        self.layers = []
        for rows, columns, gain in widths:
            q, r = np.linalg.qr(random.normal(size=(max(rows, columns), min(rows, columns))))
            weights = q * np.sign(np.diag(r))
            self.layers.append(gain * (weights if rows >= columns else weights.T))
            self.layers.append(np.zeros(columns))
        self.moments = [np.zeros((2, *layer.shape)) for layer in self.layers]
        self.steps = 0

    def forward(self, inputs):
        """Returns the outputs, and the activations that `backward` needs."""
        first = np.tanh(inputs @ self.layers[0] + self.layers[1])
        second = np.tanh(first @ self.layers[2] + self.layers[3])
        return second @ self.layers[4] + self.layers[5], (inputs, first, second)

    def backward(self, activations, gradient):
        """Returns the gradients of all layers, given the gradient of the outputs."""
        inputs, first, second = activations
        at_second = (gradient @ self.layers[4].T) * (1 - second**2)
        at_first = (at_second @ self.layers[2].T) * (1 - first**2)
        return [
            *(inputs.T @ at_first, at_first.sum(0)),
            *(first.T @ at_second, at_second.sum(0)),
            *(second.T @ gradient, gradient.sum(0)),
        ]

    def descend(self, gradients, rate, longest=0.5):
        """Takes a step of Adam with the gradients clipped to the norm `longest`."""
        length = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        self.steps += 1
        for layer, moments, gradient in zip(self.layers, self.moments, gradients, strict=True):
            clipped = gradient * min(1.0, longest / (length + 1e-8))
            moments[0] += 0.1 * (clipped - moments[0])
            moments[1] += 0.001 * (clipped**2 - moments[1])
            mean = moments[0] / (1 - 0.9**self.steps)
            variance = moments[1] / (1 - 0.999**self.steps)
            layer -= rate * mean / (np.sqrt(variance) + 1e-5)


class Inputs:
    """Observations as rows of numbers, with a running mean of 0 and variance of 1."""

    def __init__(self, space):
        self.space = space
        self.width = len(_columns(space, space.sample(), 1)[0])
        self.mean, self.variance, self.count = np.zeros(self.width), np.ones(self.width), 1e-4

    def rows(self, observations, count, learns=False):
        """Returns a row for each slot."""
        rows = _columns(self.space, observations, count)
        if learns:
            share = count / (self.count + count)
            away = rows.mean(0) - self.mean
            self.variance += share * (rows.var(0) - self.variance + (1 - share) * away**2)
            self.mean += share * away
            self.count += count
        return np.clip((rows - self.mean) / np.sqrt(self.variance + 1e-8), -10, 10)


def _columns(space, observations, count):
    if isinstance(space, spaces.Dict):
        parts = [_columns(inner, observations[name], count) for name, inner in space.items()]
        return np.concatenate(parts, axis=1)
    return np.asarray(observations, np.float64).reshape(count, -1)


def learn(envs, total_steps, report, *, seed=1, length=32, epochs=8, minibatch=256, rate=1e-3):
    """Trains a policy.

    Args:
        envs: A vector environment in SameStep mode, whose only action is discrete.
        total_steps: Number of steps to learn from, counted over all slots.
        report: Called with the steps so far, and the returns of the sequences that ended.
        seed: Seed of the environments and of the learner.
        length: Steps of each slot between two updates.
        epochs: Number of times that each step is learned from.
        minibatch: Number of steps for each gradient.
        rate: Learning rate at the start; it falls to 0.

    Returns:
        A function from observations to actions.
    """
    random = np.random.default_rng(seed)
    slots, actions_of = envs.num_envs, envs.single_action_space
    inputs = Inputs(envs.single_observation_space)
    actor = Network(inputs.width, actions_of.n, 0.01, random)
    critic = Network(inputs.width, 1, 1.0, random)
    rows = inputs.rows(envs.reset(seed=seed)[0], slots, learns=True)
    returns = np.zeros(slots)
    for done in range(0, total_steps, slots * length):
        left = rate * (1 - done / total_steps)
        seen, chosen, logs = [], [], []
        values, rewards, ends, finished = [], [], [], []
        for _ in range(length):
            log = _log_softmax(actor.forward(rows)[0])
            action = (np.exp(log).cumsum(1) < random.random((slots, 1))).sum(1)
            action = np.minimum(action, actions_of.n - 1)
            seen.append(rows)
            chosen.append(action)
            logs.append(log[np.arange(slots), action])
            values.append(critic.forward(rows)[0][:, 0])
            observations, reward, terminated, truncated, infos = envs.step(
                action + actions_of.start
            )
            returns += reward
            ended = terminated | truncated
            finished += returns[ended].tolist()
            returns[ended] = 0
            reward = reward.copy()
            for slot in np.flatnonzero(truncated & ~terminated):
                # The sequence was cut short: the critic estimates the rewards after it.
                last = inputs.rows(infos["final_obs"][slot], 1)
                reward[slot] += 0.99 * critic.forward(last)[0][0, 0]
            rewards.append(reward)
            ends.append(ended)
            rows = inputs.rows(observations, slots, learns=True)
        report(done + slots * length, finished)
        following, advantage, advantages = critic.forward(rows)[0][:, 0], np.zeros(slots), []
        for value, reward, ended in zip(*map(reversed, (values, rewards, ends)), strict=True):
            surprise = reward + 0.99 * following * ~ended - value
            advantage = surprise + 0.99 * 0.95 * advantage * ~ended
            advantages.append(advantage)
            following = value
        batch = [np.concatenate(part) for part in (seen, chosen, logs, values, advantages[::-1])]
        for _ in range(epochs):
            order = random.permutation(slots * length)
            for start in range(0, len(order), minibatch):
                part = [array[order[start : start + minibatch]] for array in batch]
                _update(actor, critic, *part, rate=left)

    def act(observations):
        logits = actor.forward(inputs.rows(observations, slots))[0]
        return logits.argmax(1) + actions_of.start

    return act


def _update(actor, critic, seen, chosen, old, values, advantages, *, rate, clip=0.2, entropy=0.01):
    """Updates the actor by the clipped objective, and the critic towards the returns."""
    count = len(seen)
    logits, activations = actor.forward(seen)
    log = _log_softmax(logits)
    probabilities = np.exp(log)
    ratio = np.exp(log[np.arange(count), chosen] - old)
    normed = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    clipped = (ratio * normed) > np.clip(ratio, 1 - clip, 1 + clip) * normed
    weight = np.where(clipped, 0, ratio * normed)[:, None]
    spread = -(probabilities * log).sum(1, keepdims=True)
    gradient = weight * (probabilities - np.eye(logits.shape[1])[chosen])
    gradient += entropy * probabilities * (log + spread)
    actor.descend(actor.backward(activations, gradient / count), rate)
    guesses, activations = critic.forward(seen)
    misses = guesses - (advantages + values)[:, None]
    critic.descend(critic.backward(activations, misses / count), rate)


def _log_softmax(logits):
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
