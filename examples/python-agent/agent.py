# SPDX-License-Identifier: Apache-2.0
"""A plain Python agent that forages in gridworld with the official dm-env-rpc client.

    node apps/gridworld-server/dist/main.js --port 8980 &
    python examples/python-agent/agent.py --address 127.0.0.1:8980 --sequences 10

It walks to the nearest food that it can load by itself, and loads it.
"""

import argparse

import grpc
import numpy as np
from dm_env_rpc.v1 import connection, dm_env_adaptor, dm_env_rpc_pb2

NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)


def choose(observation):
    """Returns the move towards the nearest food of at most the agent's level."""
    row, col = observation["position"]
    foods = [food for food in observation["food"] if 0 < food[2] <= observation["level"]]
    if not foods:
        return NONE
    down, right = min(
        ((food[0] - row, food[1] - col) for food in foods), key=lambda way: np.abs(way).sum()
    )
    if abs(down) + abs(right) == 1:
        return LOAD
    if abs(down) >= abs(right):
        return SOUTH if down > 0 else NORTH
    return EAST if right > 0 else WEST


def play(address, sequences, seed):
    """Plays and returns the return of each sequence."""
    credentials = grpc.local_channel_credentials()
    returns = []
    with connection.create_secure_channel_and_connect(address, credentials) as channel:
        settings = {"seed": seed, "max_steps": 50, "max_food_level": 2, "food": 3}
        env, world = dm_env_adaptor.create_and_join_world(channel, settings, {"name": "forager"})
        with env:
            for _ in range(sequences):
                timestep = env.reset()
                total = 0.0
                while not timestep.last():
                    timestep = env.step({"move": np.int8(choose(timestep.observation))})
                    total += float(timestep.reward)
                returns.append(total)
        channel.send(dm_env_rpc_pb2.DestroyWorldRequest(world_name=world))
    return returns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="127.0.0.1:8980")
    parser.add_argument("--sequences", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for number, total in enumerate(play(options.address, options.sequences, options.seed), 1):
        print(f"sequence {number}: return {total:.3f}")


if __name__ == "__main__":
    main()
