// SPDX-License-Identifier: Apache-2.0
import { defineWorld, freeRunning, lockstep, type WorldDefinition } from "@dm-env-rpc/server";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import { type BoardGame, boardGame, boardShape } from "./board.ts";
import { bytesGame } from "./bytes.ts";
import { screenGame, screenShape, stackShape } from "./screen.ts";

const actions = { move: t.int8({ min: 0, max: 2 }) };

const boardObservations = {
  reward: t.float32(),
  discount: t.float32(),
  board: t.uint8(boardShape),
};

const observeBoard = (game: BoardGame) => ({
  reward: () => game.reward(),
  discount: () => game.discount(),
  board: () => game.board(),
});

/** The small step as a world author writes it. */
export const boardWorld = defineWorld({
  name: "board",
  clock: freeRunning(),
  actions,
  observations: boardObservations,
  create() {
    const game = boardGame();
    return {
      step(moves) {
        for (const { move = 1 } of moves.values()) {
          game.step(move);
        }
      },
      observe: observeBoard(game),
      picture: () => pictureOf(game.board()),
    };
  },
});

/** Pixels of a side of a cell. */
const cellSide = 8;

/** The board as a picture for viewers: uint8 [80, 40, 3]. */
function pictureOf(board: Uint8Array) {
  const [rows, columns] = boardShape;
  const shape = [rows * cellSide, columns * cellSide, 3] as const;
  const lineBytes = shape[1] * shape[2];
  const pixels = new Uint8Array(shape[0] * lineBytes).fill(40);
  for (let cell = board.indexOf(1); cell !== -1; cell = board.indexOf(1, cell + 1)) {
    const corner = Math.floor(cell / columns) * cellSide * lineBytes;
    const left = (cell % columns) * cellSide * shape[2];
    for (let line = 0; line < cellSide; line++) {
      const start = corner + line * lineBytes + left;
      pixels.fill(255, start, start + cellSide * shape[2]);
    }
  }
  return tensor("uint8", shape, pixels);
}

/** The small step in a world that many agents share: a tick once each of them has stepped. */
export const sharedWorld = defineWorld({
  name: "shared",
  clock: lockstep(),
  actions,
  observations: boardObservations,
  create() {
    const game = boardGame();
    return {
      step(moves) {
        for (const { move = 1 } of moves.values()) {
          game.step(move);
          return;
        }
      },
      observe: observeBoard(game),
    };
  },
});

/** The large step as a world author writes it. */
export const screenWorld = defineWorld({
  name: "screen",
  clock: freeRunning(),
  actions,
  observations: { screen: t.uint8(screenShape), stack: t.float32(stackShape) },
  create() {
    const game = screenGame();
    return {
      step: () => game.step(),
      observe: { screen: () => game.screen(), stack: () => game.stack() },
    };
  },
});

/** A step with an observation of any size. */
export function bytesWorld(size: number): WorldDefinition {
  return defineWorld({
    name: "bytes",
    clock: freeRunning(),
    actions,
    observations: { data: t.uint8([size]) },
    create() {
      const game = bytesGame(size);
      return { step: () => game.step(), observe: { data: () => game.data() } };
    },
  }) as unknown as WorldDefinition;
}
