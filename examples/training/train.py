# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 as NumPy reads its number of threads when it is imported
"""Trains an agent, and draws its learning curve beside a random agent's.

    npm run build
    pip install ./python
    python examples/training/train.py                    CartPole, by the PPO of ppo.py
    python examples/training/train.py --world foraging   four agents of a world share a policy
    python examples/training/train.py --learner torch    by ppo_torch.py
    python examples/training/train.py --learner sb3      by Stable-Baselines3's PPO
    python examples/training/train.py --learner rllib    by RLlib's PPO

Several learners are trained one after the other: --learner ppo torch sb3.

Starts the server of the world, unless --address names a running one.
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
from shared import SharedWorlds

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
        "agents": 4,
        "steps": 200_000,
        "options": {
            "create_settings": {
                "height": 8,
                "width": 8,
                "food": 4,
                "max_food_level": 1,
                "max_steps": 25,
            },
            "observations": ["position", "food"],
        },
    },
}
"""Worlds by name. With `agents`, that number of agents shares a world, each in a slot."""


def main():
    """Trains with the learners and the world that the flags select."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--world", choices=WORLDS, default="cart-pole")
    parser.add_argument(
        "--learner", nargs="+", choices=["ppo", "torch", "sb3", "rllib"], default=["ppo"]
    )
    parser.add_argument("--address", help="host:port of a server; by default one is started")
    parser.add_argument("--steps", type=int, help="steps of slots to learn from")
    parser.add_argument("--picture", type=pathlib.Path, default=pathlib.Path("curve.svg"))
    flags = parser.parse_args()
    world = WORLDS[flags.world]
    steps = flags.steps or world["steps"]
    if "agents" in world and not {"sb3", "rllib"}.isdisjoint(flags.learner):
        parser.error(
            f"--learner: expected learners that support several agents in the world {flags.world}, "
            "received sb3 or rllib; choose others"
        )
    curves = {}
    with contextlib.ExitStack() as stack:
        address = flags.address or stack.enter_context(serving(world["server"]))
        for learner in flags.learner:
            start, start_of_cpu = time.perf_counter(), time.process_time()
            learned = smoothed(train(learner, address, world, steps), steps)
            seconds, cpu = time.perf_counter() - start, time.process_time() - start_of_cpu
            curves[learner] = learned
            print(
                f"{learner}: return {learned[0][1]:.3g} at first, {learned[-1][1]:.3g} at last; "
                f"{steps:,} steps in {seconds:.0f} s ({cpu:.0f} s of CPU), "
                f"{steps / seconds:,.0f} steps/s"
            )
        random = play_at_random(address, world, min(steps, 20_000))
    mean = float(np.mean([value for _, value in random]))
    print(f"{mean:.3g} at random; {flags.picture}")
    title = f"{flags.world}, {world['slots']} slots: mean return over steps"
    draw(flags.picture, title, {**curves, "random": [(0, mean), (steps, mean)]}, steps)


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
    if learner == "rllib":
        from rllib import learn_with_rllib

        learn_with_rllib(address, world, steps, report)
        return ends
    if learner == "torch":
        from ppo_torch import learn
    else:
        from ppo import learn
    with contextlib.closing(join(address, world)) as envs:
        learn(envs, steps, report)
    return ends


def join(address, world):
    """Returns the slots of a world as a vector in SameStep mode."""
    slots, agents, options = world["slots"], world.get("agents"), world["options"]
    if agents is None:
        return RemoteVectorEnv(address, slots, autoreset_mode="SameStep", **options)
    from dm_env_rpc_gym.pettingzoo import RemoteParallelEnv

    worlds = [RemoteParallelEnv(address, agents, **options) for _ in range(slots // agents)]
    return SharedWorlds(worlds)


def play_at_random(address, world, steps):
    """Returns the steps so far and the return of each sequence of a random agent."""
    slots = world["slots"]
    ends, returns = [], np.zeros(slots)
    with contextlib.closing(join(address, world)) as envs:
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
    """Runs a server on a free port and yields its address."""
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
            raise SystemExit(
                f"{program} did not start: expected a built program; run npm run build first"
            )
        yield line.removeprefix("listening on ").removeprefix("http://").strip()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
