// SPDX-License-Identifier: Apache-2.0

/** The picture's shape: an Atari screen. */
export const screenShape = [210, 160, 3] as const;
/** The stack's shape: four such screens as agents learn from them. */
export const stackShape = [84, 84, 4] as const;
const screenBytes = 210 * 160 * 3;
const stackElements = 84 * 84 * 4;

/** The simulation of the large step: two pictures, of which each tick changes a few pixels. */
export interface ScreenGame {
  step(): void;
  /** The picture; the same memory every time. */
  screen(): Uint8Array<ArrayBuffer>;
  /** The stack; the same memory every time. */
  stack(): Float32Array<ArrayBuffer>;
}

/** Starts a game at tick 0. */
export function screenGame(): ScreenGame {
  // Like a screen of an early video game: flat areas and some texture. It compresses well, which favours gzip.
  const screen = Uint8Array.from({ length: screenBytes }, (_, i) =>
    Math.floor(i / 4800) % 7 === 0 ? (i * 37) % 251 : 40 + Math.floor(i / 14400),
  );
  const stack = Float32Array.from({ length: stackElements }, (_, i) => (screen[i] ?? 0) / 255);
  let tick = 0;
  const draw = (): void => {
    screen[0] = tick & 0xff;
    screen[screenBytes - 1] = (tick >> 8) & 0xff;
    stack[0] = tick & 0xffff;
    stack[stackElements - 1] = tick & 0xff;
  };
  draw();
  return {
    step() {
      tick += 1;
      draw();
    },
    screen: () => screen,
    stack: () => stack,
  };
}

/**
 * Checks the observations of a tick.
 *
 * @throws Error if they differ from the game's.
 */
export function checkScreen(
  tick: number,
  screen: ArrayLike<unknown>,
  stack: ArrayLike<unknown>,
): void {
  if (
    screen.length !== screenBytes ||
    screen[0] !== (tick & 0xff) ||
    screen[screenBytes - 1] !== ((tick >> 8) & 0xff) ||
    stack.length !== stackElements ||
    stack[0] !== (tick & 0xffff) ||
    stack[stackElements - 1] !== (tick & 0xff)
  ) {
    throw new Error(
      `wrong answer at tick ${tick}: received a screen of ${screen.length} bytes that begins with ${String(screen[0])} ` +
        `and a stack of ${stack.length} elements that begins with ${String(stack[0])}`,
    );
  }
}
