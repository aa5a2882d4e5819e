// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import type { FrameSource } from "@dm-env-rpc/gridworld-server";
import { type BoardAgent, readBoard, slotOf } from "./board.ts";

/** A board and its world. */
export interface PlacedBoard {
  readonly title: string;
  readonly frame: FrameSource;
}

/** The boards of all servers, from the observations of their agents. */
export interface Boards {
  /**
   * Records an agent's observations.
   *
   * @returns True if its board has changed. Each board is drawn from one of its agents.
   */
  note(agent: number, step: TimeStep<DynamicObservation>, place: Place): boolean;
  /** Returns one board for each server, in the order of the addresses. */
  all(): readonly PlacedBoard[];
}

/** A world and its server. */
export interface Place {
  readonly address: string;
  readonly worldName: string;
}

/**
 * Starts without boards.
 *
 * @param nameOf Returns the name that a board shows for an agent.
 */
export function createBoards(nameOf: (agent: number) => string): Boards {
  const worlds = new Map<
    string,
    { name: string; eye: number; agents: Map<number, BoardAgent>; frame?: FrameSource }
  >();
  return {
    note(agent, step, { address, worldName }) {
      let world = worlds.get(address);
      if (world?.name !== worldName) {
        world = { name: worldName, eye: agent, agents: new Map() };
        worlds.set(address, world);
      }
      world.agents.set(slotOf(step), { name: nameOf(agent), reward: step.reward ?? 0 });
      if (agent !== world.eye) {
        return false;
      }
      const frame = readBoard(step, world.agents);
      // Names are missing until every agent on the board has stepped.
      if (frame.foragers.some(({ onBoard, slot }) => onBoard && world?.agents.has(slot) !== true)) {
        return false;
      }
      world.frame = frame;
      return true;
    },
    all: () =>
      [...worlds]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([address, { name, frame }]) => {
          const title = `${name} at ${address.replace(/^https?:\/\//, "")}`;
          return frame === undefined ? [] : [{ title, frame }];
        }),
  };
}
