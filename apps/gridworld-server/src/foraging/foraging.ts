// SPDX-License-Identifier: Apache-2.0
import { createBoard, lift, placeAtRandom, populate } from "./board.ts";
import { ForagingError } from "./errors.ts";
import { drawAnsiFrame, drawPlainFrame } from "./frame.ts";
import {
  agentFields,
  foodFields,
  gridChannels,
  writeAgents,
  writeFood,
  writeGrid,
} from "./observations.ts";
import { drawPicture, highlightForager } from "./picture.ts";
import { PictureCache } from "./picture-cache.ts";
import type { Random } from "./random.ts";
import {
  type AgentKey,
  addForager,
  createRoster,
  dropForager,
  type Forager,
  findForager,
  type JoinOptions,
} from "./roster.ts";
import { declare, type ForagingStatus, foragingActions, playTick, statusAfter } from "./rules.ts";
import { type ForagingSettings, type ForagingSettingsInput, resolveSettings } from "./settings.ts";
import { drawText } from "./text.ts";
import { tileSide } from "./tiles.ts";

/**
 * A board of Level-Based Foraging and the agents that have joined it.
 *
 * An agent joins, then a reset or `enter` puts it on the board. Agents are processed in the order
 * of joining. Every method of a joined agent throws a {@link ForagingError} `unknown-agent` if it
 * has not joined. Observations of an agent throw `wrong-state` if it is not on the board; each
 * returns memory that the caller owns.
 *
 * Source: Albrecht & Ramamoorthy 2013; Papoudakis et al. 2021.
 */
export interface Foraging<Agent extends AgentKey = AgentKey> {
  readonly settings: ForagingSettings;
  /** Status of the sequence; `interrupted` before the first reset. */
  readonly status: ForagingStatus;
  /** Ticks of the sequence so far, 0…max_steps: the observation `step`. */
  readonly stepCount: number;

  /**
   * Adds an agent in the lowest free slot, off the board.
   *
   * @throws {ForagingError} `already-joined`, `world-full`, or `invalid-setting`.
   */
  join(agent: Agent, options?: JoinOptions): void;
  /** Removes an agent, from the board too. */
  leave(agent: Agent): void;
  /** Returns true if a joined agent is on the board. */
  isOnBoard(agent: Agent): boolean;

  /**
   * Starts a sequence with exactly these agents on the board, in any order.
   *
   * @throws {ForagingError} `wrong-state`: no agent is given.
   */
  reset(agents: Iterable<Agent>): void;
  /**
   * Puts an agent on a uniformly drawn empty cell of the running sequence, its level drawn again.
   *
   * An agent that is already on the board is removed first.
   *
   * @throws {ForagingError} `wrong-state`: no sequence runs; `board-full`: no cell is empty.
   */
  enter(agent: Agent): void;
  /** Takes an agent off the board; it stays joined, in its slot. */
  remove(agent: Agent): void;

  /**
   * Plays one tick. An agent without an action does nothing; an action without an agent on the
   * board is ignored.
   *
   * @throws {ForagingError} `wrong-state`: no sequence runs; `invalid-action`: not 0…5.
   */
  step(actions: ReadonlyMap<Agent, number>): void;
  /**
   * Returns an agent's reward of the last tick, a float32; 0 before the first tick and off the
   * board.
   */
  rewardOf(agent: Agent): number;

  /**
   * Returns an agent's view: uint8 [2·sight+1, 2·sight+1, 4], channels agent level, food level,
   * accessible, self.
   *
   * Fills and returns `out` if given; it must have that length.
   */
  grid(agent: Agent, out?: Uint8Array): Uint8Array;
  /** Returns an agent's cell: int32 [2], row and col. */
  position(agent: Agent): Int32Array;
  /** Returns an agent's level, 1…85. */
  level(agent: Agent): number;
  /** Returns all agents by slot: int32 [max_agents, 4], row, col, level, present. */
  agents(): Int32Array;
  /** Returns all food in the order it was drawn: int32 [food, 3], row, col, level, zeros when gone. */
  food(): Int32Array;
  /** Draws the board: uint8 [height·8, width·8, 3]; an agent if given stands on bright ground. */
  rgb(agent?: Agent): Uint8Array;

  /** Draws the board in the notation of a layout. */
  text(): string;
  /** Draws a frame to print, with 24-bit ANSI colours or plain. */
  frame(style: "ansi" | "plain"): string;
}

/**
 * Creates a board without agents.
 *
 * The same settings, numbers from `random`, calls and actions give the same sequences, bit for bit.
 *
 * @param settings Absent settings have their defaults; see {@link ForagingSettings}.
 * @param pictures Pictures that agents share, also those of other boards. Default: a cache of this board alone.
 * @throws {ForagingError} `invalid-setting` or `invalid-layout`.
 */
export function createForaging<Agent extends AgentKey = AgentKey>(
  settings: ForagingSettingsInput,
  random: Random,
  pictures: PictureCache = new PictureCache(),
): Foraging<Agent> {
  const { settings: resolved, layout } = resolveSettings(settings);
  const { height, width, sight, maxAgents, maxSteps } = resolved;
  const roster = createRoster<Agent>();
  const board = createBoard(height, width);
  const gridLength = (2 * sight + 1) ** 2 * gridChannels;
  let status: ForagingStatus = "interrupted";
  let stepCount = 0;
  const ownPicture = Symbol();
  /** Number of calls that may have changed the picture. */
  let changes = 0;

  /** Draws the board without highlights. */
  function draw(): Uint8Array {
    const kept = pictures.get(ownPicture, changes);
    if (kept !== undefined) {
      return kept.slice();
    }
    const out = new Uint8Array(height * tileSide * width * tileSide * 3);
    drawPicture(out, board, roster.inOrder);
    if (roster.inOrder.length > 1) {
      pictures.keep(ownPicture, changes, out.slice());
    }
    return out;
  }

  function standing(agent: Agent): Forager {
    const forager = findForager(roster, agent);
    if (forager.onBoard) {
      return forager;
    }
    throw new ForagingError(
      "wrong-state",
      `expected an agent on the board, received ${String(agent)}, which is off it; reset or enter it first`,
    );
  }

  function requireRunning(call: string): void {
    if (status === "running") {
      return;
    }
    throw new ForagingError(
      "wrong-state",
      `${call}: expected a running sequence, received one that is ${status}; reset first`,
    );
  }

  return {
    settings: resolved,
    get status() {
      return status;
    },
    get stepCount() {
      return stepCount;
    },

    join(agent, options = {}) {
      changes++;
      addForager(roster, agent, maxAgents, options);
    },
    leave(agent) {
      changes++;
      lift(board, findForager(roster, agent));
      dropForager(roster, agent);
    },
    isOnBoard: (agent) => findForager(roster, agent).onBoard,

    reset(agents) {
      changes++;
      const starting = new Set<Forager>();
      for (const agent of agents) {
        starting.add(findForager(roster, agent));
      }
      if (starting.size === 0) {
        throw new ForagingError(
          "wrong-state",
          "reset: expected at least one agent, received none; wait until one joins",
        );
      }
      for (const forager of roster.inOrder) {
        lift(board, forager);
      }
      const inOrder = roster.inOrder.filter((forager) => starting.has(forager));
      populate(board, inOrder, resolved, layout, random);
      status = "running";
      stepCount = 0;
    },
    enter(agent) {
      changes++;
      const forager = findForager(roster, agent);
      requireRunning("enter");
      placeAtRandom(board, forager, resolved, random);
    },
    remove(agent) {
      changes++;
      lift(board, findForager(roster, agent));
    },

    step(actions) {
      changes++;
      requireRunning("step");
      for (const [agent, forager] of roster.byKey) {
        if (!forager.onBoard) {
          continue;
        }
        const action = actions.get(agent) ?? foragingActions.none;
        if (!Number.isInteger(action) || action < 0 || action > foragingActions.load) {
          throw invalidAction(agent, action);
        }
        declare(board, forager, action);
      }
      playTick(board, roster.inOrder, resolved);
      stepCount++;
      status = statusAfter(board, stepCount, maxSteps);
    },
    rewardOf: (agent) => findForager(roster, agent).reward,

    grid(agent, out = new Uint8Array(gridLength)) {
      if (out.length !== gridLength) {
        throw new RangeError(`grid: expected room for ${gridLength}, received ${out.length}`);
      }
      writeGrid(out, board, roster.inOrder, standing(agent), sight);
      return out;
    },
    position(agent) {
      const { row, col } = standing(agent);
      return Int32Array.of(row, col);
    },
    level: (agent) => standing(agent).level,
    agents() {
      const out = new Int32Array(maxAgents * agentFields);
      writeAgents(out, roster.inOrder);
      return out;
    },
    food() {
      const out = new Int32Array(resolved.food * foodFields);
      writeFood(out, board);
      return out;
    },
    rgb(agent) {
      const out = draw();
      if (agent !== undefined) {
        highlightForager(out, board, roster.inOrder, findForager(roster, agent));
      }
      return out;
    },

    text: () => drawText(board, roster.inOrder),
    frame(style) {
      const source = { board, foragers: roster.inOrder, step: stepCount, maxSteps, status };
      return style === "ansi" ? drawAnsiFrame(source) : drawPlainFrame(source);
    },
  };
}

function invalidAction(agent: AgentKey, action: unknown): ForagingError {
  return new ForagingError(
    "invalid-action",
    `action of ${String(agent)}: expected an integer from 0 (none) to ${foragingActions.load} (load), received ${String(action)}; send one of them`,
  );
}
