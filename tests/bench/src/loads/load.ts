// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentResponse } from "@dm-env-rpc/protocol";
import type { WorldDefinition } from "@dm-env-rpc/server";
import { boardGame, boardShape, checkBoard } from "./board.ts";
import { bytesGame, checkBytes } from "./bytes.ts";
import {
  type GeneratedGame,
  observationsOf,
  packBytes,
  packFloat,
  packFloats,
  unpackBytes,
  unpackFloat,
  unpackFloats,
} from "./generated.ts";
import { checkScreen, screenGame, screenShape, stackShape } from "./screen.ts";
import { boardWorld, bytesWorld, screenWorld, sharedWorld } from "./worlds.ts";

/**
 * Name of a load: the small step, the small step in one shared world, the large step, or one with
 * an observation of the given number of bytes.
 */
export type LoadName = "board" | "shared" | "screen" | `bytes:${number}`;

/** The part of a time step that a load checks. */
export interface Played {
  readonly reward: number | null;
  readonly discount: number | null;
  readonly observation: { readonly [name: string]: unknown };
}

/** A world to play and a check of its responses, the same for all contenders. */
export interface Load {
  /** Number of observations that a step requests. */
  readonly observations: number;
  /** The world as our own server serves it. */
  readonly world: WorldDefinition;
  /** True if all connections join one world, which advances when all of them have stepped. */
  readonly shared?: boolean;
  /** Checks a time step of our own client; throws if it is wrong. */
  check(tick: number, step: Played): void;
  /** Starts a game that is played through generated messages. */
  generatedGame(): GeneratedGame;
  /** Unpacks and checks a generated response; throws if it is wrong. */
  checkGenerated(tick: number, response: EnvironmentResponse): void;
}

/** Finds a load by its name. */
export function loadOf(name: LoadName): Load {
  if (name === "board") {
    return board;
  }
  if (name === "shared") {
    return shared;
  }
  if (name === "screen") {
    return screen;
  }
  return bytes(Number(name.slice("bytes:".length)));
}

const board: Load = {
  observations: 3,
  world: boardWorld as unknown as WorldDefinition,
  check: (tick, { reward, discount, observation }) =>
    checkBoard(tick, reward, discount, dataOf(observation["board"])),
  generatedGame() {
    const game = boardGame();
    return {
      step: (move) => game.step(move),
      pack: (uid) =>
        uid === 1
          ? packFloat(game.reward())
          : uid === 2
            ? packFloat(game.discount())
            : packBytes(boardShape, game.board()),
    };
  },
  checkGenerated(tick, response) {
    const { "1": reward, "2": discount, "3": cells } = observationsOf(response);
    checkBoard(tick, unpackFloat(reward), unpackFloat(discount), unpackBytes(cells, boardShape));
  },
};

/** Only our own server has shared worlds; on other servers every connection has its own world. */
const shared: Load = {
  ...board,
  world: sharedWorld as unknown as WorldDefinition,
  shared: true,
};

const screen: Load = {
  observations: 2,
  world: screenWorld as unknown as WorldDefinition,
  check: (tick, { observation }) =>
    checkScreen(tick, dataOf(observation["screen"]), dataOf(observation["stack"])),
  generatedGame() {
    const game = screenGame();
    return {
      step: () => game.step(),
      pack: (uid) =>
        uid === 1 ? packBytes(screenShape, game.screen()) : packFloats(stackShape, game.stack()),
    };
  },
  checkGenerated(tick, response) {
    const { "1": picture, "2": stack } = observationsOf(response);
    checkScreen(tick, unpackBytes(picture, screenShape), unpackFloats(stack, stackShape));
  },
};

function bytes(size: number): Load {
  return {
    observations: 1,
    world: bytesWorld(size),
    check: (tick, { observation }) => checkBytes(tick, size, dataOf(observation["data"])),
    generatedGame() {
      const game = bytesGame(size);
      return { step: () => game.step(), pack: () => packBytes([size], game.data()) };
    },
    checkGenerated(tick, response) {
      checkBytes(tick, size, unpackBytes(observationsOf(response)["1"], [size]));
    },
  };
}

function dataOf(tensor: unknown): ArrayLike<unknown> {
  if (typeof tensor === "object" && tensor !== null && "data" in tensor) {
    return tensor.data as ArrayLike<unknown>;
  }
  throw new Error(`expected a tensor, received ${String(tensor)}`);
}
