import { type AgentId, defineWorld, turns } from "@dm-env-rpc/server";
import { DmEnvRpcError, legalActions, t } from "@dm-env-rpc/tensor-codec";
import { Board } from "./board.ts";

const field = t.discrete(9);

/** Two agents mark fields in turns. Each sees its own fields as 1, the other's as -1, and free ones as 0. */
export const ticTacToe = defineWorld({
  name: "tic-tac-toe",
  actions: { field },
  observations: {
    board: t.int8([9], { min: -1, max: 1 }),
    legal_actions: legalActions(field),
    reward: t.float32(),
  },
  clock: turns(),
  agents: { min: 2, max: 2 },
  onLeave: "terminate",

  create() {
    const board = new Board();
    const rewardOf = (agent: AgentId) => {
      const winner = board.winner();
      return winner === 0 ? 0 : winner === agent ? 1 : -1;
    };
    return {
      start: () => board.clear(),
      validate(_agent, { field }) {
        if (field !== undefined && board.isFree(field)) {
          return;
        }
        throw new DmEnvRpcError("INVALID_ARGUMENT", `expected a free field, received ${field}`);
      },
      step(actions) {
        for (const [agent, { field }] of actions) {
          if (field !== undefined) {
            board.take(field, agent);
          }
        }
      },
      status: () => (board.winner() !== 0 || board.isFull() ? "terminated" : "running"),
      observe: {
        board: (agent) =>
          board.fields.map((player) => (player === 0 ? 0 : player === agent ? 1 : -1)),
        legal_actions: () => [...board.fields].map((player) => player === 0),
        reward: rewardOf,
      },
    };
  },
});
