# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 as NumPy reads its number of threads when it is imported
"""Trains an agent, and draws its learning curve beside a random agent's.

    npm run build
    pip install ./python
    python examples/training/train.py                    CartPole, by the PPO of ppo.py
    python examples/training/train.py --world foraging
    python examples/training/train.py --learner sb3      by Stable-Baselines3's PPO

The world's server is started, unless --address tells of one.
"""

import os

# Networks this small are slower on several threads.
for library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import argparse
import contextlib
import pathlib
import subprocess
import sys
import time

import numpy as np
from curve import draw, smoothed
from dm_env_rpc_gym import RemoteVectorEnv
from ppo import learn

ROOT = pathlib.Path(__file__).resolve().parents[2]

WORLDS = {
    "cart-pole": {
        "server": ROOT / "examples/environment/dist/serve.js",
        "slots": 64,
        "steps": 200_000,
        "options": {},
    },
    "foraging": {
        "server": ROOT / "apps/gridworld-server/dist/main.js",
        "slots": 32,
        "steps": 100_000,
        "options": {
            "create_settings": {
                "height": 5,
                "width": 5,
                "food": 2,
                "max_food_level": 1,
                "max_steps": 40,
            },
            "observations": ["position", "food"],
        },
    },
}


def main():
    """Trains as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--world", choices=WORLDS, default="cart-pole")
    parser.add_argument("--learner", choices=["ppo", "sb3"], default="ppo")
    parser.add_argument("--address", help="host:port of a server; by default one is started")
    parser.add_argument("--steps", type=int, help="steps of slots to learn from")
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("curve.svg"))
    flags = parser.parse_args()
    world = WORLDS[flags.world]
    steps = flags.steps or world["steps"]
    with contextlib.ExitStack() as stack:
        address = flags.address or stack.enter_context(serving(world["server"]))
        start = time.perf_counter()
        trained = train(flags.learner, address, world, steps)
        seconds = time.perf_counter() - start
        random = play_at_random(address, world, min(steps, 20_000))
    learned = smoothed(trained, steps)
    mean = float(np.mean([value for _, value in random]))
    title = f"{flags.world}, {world['slots']} slots: mean return over steps"
    draw(
        flags.picture,
        title,
        {flags.learner: learned, "random": [(0, mean), (steps, mean)]},
        steps,
    )
    print(
        f"return {learned[0][1]:.3g} at first, {learned[-1][1]:.3g} at last, {mean:.3g} at random"
    )
    print(f"{steps:,} steps in {seconds:.0f} s, {steps / seconds:,.0f} steps/s; {flags.picture}")


def train(learner, address, world, steps):
    """Returns the steps so far and the return of each sequence that ended."""
    ends = []

    def report(so_far, returns):
        ends.extend((so_far, value) for value in returns)
        if sys.stdout.isatty() and ends:
            recent = np.mean([value for _, value in ends[-100:]])
            print(f"\r{so_far:,} steps, mean return {recent:.3g}  ", end="", flush=True)

    if learner == "sb3":
        from sb3 import learn_with_sb3

        learn_with_sb3(address, world, steps, report)
        return ends
    envs = RemoteVectorEnv(address, world["slots"], autoreset_mode="SameStep", **world["options"])
    with contextlib.closing(envs):
        learn(envs, steps, report)
    return ends


def play_at_random(address, world, steps):
    """Returns the steps so far and the return of each sequence of a random agent."""
    slots = world["slots"]
    envs = RemoteVectorEnv(address, slots, autoreset_mode="SameStep", **world["options"])
    ends, returns = [], np.zeros(slots)
    with contextlib.closing(envs):
        envs.reset(seed=1)
        envs.action_space.seed(1)
        for so_far in range(0, steps, slots):
            _, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
            returns += rewards
            ended = terminated | truncated
            ends += [(so_far, value) for value in returns[ended]]
            returns[ended] = 0
    return ends


@contextlib.contextmanager
def serving(program):
    """Runs a server on a free port; gives its address."""
    flags = ["--port", "0"] if program.name == "main.js" else []
    server = subprocess.Popen(
        ["node", str(program), *flags],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PORT": "0"},
    )
    try:
        line = server.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit(f"{program} does not serve: run npm run build first")
        yield line.removeprefix("listening on ").removeprefix("http://").strip()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
