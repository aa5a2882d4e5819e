// SPDX-License-Identifier: Apache-2.0

/** The simulation of an observation of any size: bytes that begin and end with the tick. */
export interface BytesGame {
  step(): void;
  /** The bytes; the same memory every time. */
  data(): Uint8Array<ArrayBuffer>;
}

/** Starts a game of `size` bytes at tick 0. */
export function bytesGame(size: number): BytesGame {
  const data = Uint8Array.from({ length: size }, (_, i) => i & 0xff);
  let tick = 0;
  const draw = (): void => {
    data[0] = tick & 0xff;
    data[size - 1] = tick & 0xff;
  };
  draw();
  return {
    step() {
      tick += 1;
      draw();
    },
    data: () => data,
  };
}

/**
 * Checks the observations of a tick.
 *
 * @throws Error if they differ from the game's.
 */
export function checkBytes(tick: number, size: number, data: ArrayLike<unknown>): void {
  if (data.length !== size || data[0] !== (tick & 0xff) || data[size - 1] !== (tick & 0xff)) {
    throw new Error(
      `wrong answer at tick ${tick}: expected ${size} bytes, received ${data.length} that begin with ${String(data[0])}`,
    );
  }
}
