// SPDX-License-Identifier: Apache-2.0

/** The board's shape: that of Catch. */
export const boardShape = [10, 5] as const;
const cells = 50;
const columns = 5;

/**
 * The simulation of the small step: a paddle that moves, a ball that falls, and a reward that
 * counts the ticks, so that a player detects a missing response.
 */
export interface BoardGame {
  /** Plays one tick; 0 and 2 move the paddle, 1 does not. */
  step(move: number): void;
  /** Returns the board in memory of its own. */
  board(): Uint8Array<ArrayBuffer>;
  reward(): number;
  discount(): number;
}

/** Starts a game at tick 0. */
export function boardGame(): BoardGame {
  let tick = 0;
  let paddle = 2;
  return {
    step(move) {
      tick += 1;
      paddle = Math.min(Math.max(paddle + move - 1, 0), columns - 1);
    },
    board() {
      const board = new Uint8Array(cells);
      board[ballAt(tick)] = 1;
      board[cells - columns + paddle] = 1;
      return board;
    },
    reward: () => rewardAt(tick),
    discount: () => 1,
  };
}

/**
 * Checks the observations of a tick.
 *
 * @throws Error if they differ from the game's.
 */
export function checkBoard(
  tick: number,
  reward: unknown,
  discount: unknown,
  board: ArrayLike<unknown>,
): void {
  if (
    reward !== rewardAt(tick) ||
    discount !== 1 ||
    board.length !== cells ||
    board[ballAt(tick)] !== 1
  ) {
    throw new Error(
      `wrong answer at tick ${tick}: expected reward ${rewardAt(tick)} and a ball in cell ${ballAt(tick)}, ` +
        `received reward ${String(reward)}, discount ${String(discount)} and ${board.length} cells`,
    );
  }
}

const ballAt = (tick: number): number => tick % (cells - columns);
const rewardAt = (tick: number): number => tick % 1024;
