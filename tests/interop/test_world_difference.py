# SPDX-License-Identifier: Apache-2.0
"""Gridworld against the reference implementation of Level-Based Foraging, tick by tick.

Where the two differ, and why the scenarios keep clear of it:

- an agent that loads beside two foods loads both here and the first of them there: spaced
  foods, which is how the reference spawns them (one scenario shows the difference);
- the reference's search for the food beside an agent overlooks row 0 and column 0, where it
  never spawns any, and breaks: no food there;
- the reference's rewards are float64, ours the same rounded to float32;
- the reference calls both ends done: here food that is gone is TERMINATED, even in the last
  tick, and the limit is INTERRUPTED;
- with `--clock wakeUp` there is an action more here, `sleep`, by which an agent says in how
  many ticks it is answered: the scenarios are played in lock-step, where there is none.
"""

import base64
import random

import numpy as np
import pytest
from lbforaging.foraging import environment as reference
from processes import answers

LAYOUTS = 10_000


class Anything:
    """A space that contains every observation.

    The reference declares the shape of its grid observation wrongly, which today's
    gymnasium refuses.
    """

    shape = ()

    def contains(self, _):
        return True


def draw_scenario(rng):
    """Draws a board with spaced foods, agents, and useful moves."""
    height, width = rng.randint(3, 8), rng.randint(3, 8)
    cells = [(row, col) for row in range(height) for col in range(width)]
    inner = [(row, col) for row, col in cells if row > 0 and col > 0]
    rng.shuffle(inner)
    food = {}
    for cell in inner:
        if len(food) == 4:
            break
        if all(abs(cell[0] - row) + abs(cell[1] - col) > 2 for row, col in food):
            food[cell] = rng.choice([1, 1, 2, 2, 3, 4, 5])
    free = [cell for cell in cells if cell not in food]
    # Agents near food and near each other interact more.
    near = [
        cell for cell in free if any(abs(cell[0] - r) + abs(cell[1] - c) <= 2 for r, c in food)
    ]
    agents = {}
    for _ in range(rng.randint(1, 4)):
        left = [cell for cell in near or free if cell not in agents]
        left = left or [cell for cell in free if cell not in agents]
        if left:
            agents[rng.choice(left)] = rng.choice([1, 1, 2, 3])
    drawing = "\n".join(
        "".join(
            str(food[row, col])
            if (row, col) in food
            else chr(96 + agents[row, col])
            if (row, col) in agents
            else "."
            for col in range(width)
        )
        for row in range(height)
    )
    ticks = rng.randint(4, 14)
    return {
        "settings": {
            "layout": drawing,
            "max_agents": len(agents),
            "food": len(food),
            "sight": rng.randint(1, max(height, width)),
            "max_steps": ticks if rng.random() < 0.5 else ticks + 5,
            "penalty": rng.choice([0.0, 0.0, 0.1, 0.25]),
            "normalize_reward": rng.random() < 0.8,
        },
        "agents": len(agents),
        "moves": [
            [rng.choice([0, 1, 2, 3, 4, 5, 5, 5]) for _ in agents] for _ in range(ticks)
        ],
    }


class Reference:
    """The reference's world, with its field, players and food set directly."""

    def __init__(self, scenario):
        settings = scenario["settings"]
        rows = settings["layout"].split("\n")
        env = reference.ForagingEnv(
            players=scenario["agents"],
            min_player_level=1,
            max_player_level=9,
            min_food_level=1,
            max_food_level=9,
            field_size=(len(rows), len(rows[0])),
            max_num_food=settings["food"],
            sight=settings["sight"],
            max_episode_steps=settings["max_steps"],
            force_coop=False,
            normalize_reward=settings["normalize_reward"],
            grid_observation=True,
            penalty=settings["penalty"],
        )
        env.field = np.array(
            [[int(cell) if cell.isdigit() else 0 for cell in row] for row in rows], np.int32
        )
        self.food = [tuple(cell) for cell in np.argwhere(env.field)]
        placed = [
            (row, col, ord(cell) - 96)
            for row, line in enumerate(rows)
            for col, cell in enumerate(line)
            if cell.isalpha()
        ]
        for player, (row, col, level) in zip(env.players, placed, strict=True):
            player.setup((row, col), level, env.field_size)
        env._food_spawned = env.field.sum()
        env.current_step = 0
        env._game_over = False
        env._gen_valid_moves()
        self.env = env

    def seen(self, rewards, grids):
        """Returns the same observations as gridworld's agents."""
        env = self.env
        return {
            "state": self.state(),
            "rewards": rewards,
            "agents": [
                number
                for player in env.players
                for number in (*map(int, player.position), player.level, 1)
            ],
            "food": [
                number
                for row, col in self.food
                for number in (
                    (int(row), int(col), int(env.field[row, col]))
                    if env.field[row, col]
                    else (0, 0, 0)
                )
            ],
            "grids": [self.grid(layers) for layers in grids],
        }

    def state(self):
        if not self.env.game_over:
            return "running"
        return "interrupted" if self.env.field.any() else "terminated"

    def grid(self, layers):
        sight = self.env.sight
        ours = np.zeros((2 * sight + 1, 2 * sight + 1, 4), np.uint8)
        ours[..., :3] = np.transpose(layers, (1, 2, 0))
        ours[sight, sight, 3] = 1
        return base64.b64encode(ours.tobytes()).decode()

    def first(self):
        return self.seen([None] * len(self.env.players), self.env._make_gym_obs())

    def step(self, moves):
        grids, rewards, *_ = self.env.step(moves)
        return self.seen([float(np.float32(reward)) for reward in rewards], grids)


@pytest.fixture(autouse=True)
def _any_observation(monkeypatch):
    space = reference.gym.spaces
    monkeypatch.setattr(reference.ForagingEnv, "_get_observation_space", lambda _: Anything())
    monkeypatch.setattr(space, "Tuple", tuple)


def test_ten_thousand_layouts_are_played_alike():
    rng = random.Random(20_261_121)
    scenarios = [draw_scenario(rng) for _ in range(LAYOUTS)]
    seen = {"running": 0, "terminated": 0, "interrupted": 0, "rewarded": 0, "shared cell": 0}
    played = 0
    for scenario, ours in zip(scenarios, answers("play-layouts", scenarios), strict=True):
        world = Reference(scenario)
        assert ours[0] == world.first(), scenario
        for tick, (moves, mine) in enumerate(zip(scenario["moves"], ours[1:]), 1):
            theirs = world.step(moves)
            assert mine == theirs, (tick, moves, scenario)
            seen[mine["state"]] += 1
            seen["rewarded"] += any(reward > 0 for reward in mine["rewards"])
            places = {player.position for player in world.env.players}
            seen["shared cell"] += len(places) < len(world.env.players)
        assert (ours[-1]["state"] == "running") == (not world.env.game_over), scenario
        played += 1
    assert played == LAYOUTS
    # The scenarios must have covered every event.
    assert min(seen.values()) > 100, seen


def test_a_load_between_two_foods_is_the_listed_difference():
    scenario = {
        "settings": {
            "layout": "...\n.1.\n.a.\n.1.",
            "max_agents": 1,
            "food": 2,
            "sight": 1,
            "max_steps": 9,
            "penalty": 0.0,
            "normalize_reward": False,
        },
        "agents": 1,
        "moves": [[5]],
    }
    ((_, ours),) = answers("play-layouts", [scenario])
    theirs = Reference(scenario).step([5])
    assert (ours["rewards"], ours["state"]) == ([2.0], "terminated")
    assert (theirs["rewards"], theirs["state"]) == ([1.0], "running")
