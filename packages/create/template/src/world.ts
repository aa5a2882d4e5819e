import { type AgentId, defineWorld, lockstep, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { createGame, moves, type Player } from "./game.ts";

/** The game's interface for agents. The types of everything below follow from the specs. */
export const world = defineWorld({
  name: "coins",
  settings: {
    size: withDefault(t.int32({ min: 2, max: 64 }), 8),
    goal: withDefault(t.int32({ min: 1, max: 100 }), 3),
  },
  actions: { move: t.int8({ min: 0, max: moves.length - 1 }) },
  observations: {
    /** x and y of this agent. */
    position: t.int32([2]),
    /** x and y of the coin. */
    coin: t.int32([2]),
    coins: t.int32(),
    reward: t.float32(),
  },
  // The world advances when every agent has stepped; an agent that takes longer does not move.
  clock: lockstep({ deadlineMs: 1_000, onMissedDeadline: "default-action" }),
  agents: { max: 16 },

  create({ settings, random }) {
    const game = createGame({ size: settings.size, goal: settings.goal, random: random.integer });
    const players = new Map<AgentId, Player>();
    const player = (agent: AgentId): Player => {
      const found = players.get(agent);
      if (found === undefined) {
        throw new Error(`agent ${agent} is not in the game`);
      }
      return found;
    };
    return {
      join: (agent) => void players.set(agent, game.add()),
      leave(agent) {
        game.remove(player(agent));
        players.delete(agent);
      },
      start: () => game.restart(),
      step(actions) {
        const chosen = [...actions].map(([agent, { move = 0 }]) => [player(agent), move] as const);
        game.tick(new Map(chosen));
      },
      status: () => (game.winner() === undefined ? "running" : "terminated"),
      observe: {
        position: (agent) => [player(agent).position.x, player(agent).position.y],
        coin: () => [game.coin.x, game.coin.y],
        coins: (agent) => player(agent).coins,
        reward: (agent) => (player(agent).found ? 1 : 0),
      },
    };
  },
});
