// SPDX-License-Identifier: Apache-2.0

/** A board's picture. */
interface Kept {
  readonly pixels: Uint8Array;
  /** Number of changes of the board before it was drawn. */
  readonly changes: number;
}

/**
 * The last pictures of boards, so that the agents of a board share one drawing. Above `maxBytes`, the oldest pictures
 * are dropped.
 */
export class PictureCache {
  readonly #maxBytes: number;
  readonly #pictures = new Map<symbol, Kept>();
  #bytes = 0;

  /** @param maxBytes Bytes of all pictures. Default 16 MiB: five of the largest boards. */
  constructor(maxBytes: number = 16 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of all pictures. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the picture of a board after this many changes, if it is kept. The caller must not change it. */
  get(board: symbol, changes: number): Uint8Array | undefined {
    const kept = this.#pictures.get(board);
    return kept?.changes === changes ? kept.pixels : undefined;
  }

  /** Keeps a picture in place of the board's last one. */
  keep(board: symbol, changes: number, pixels: Uint8Array): void {
    this.#drop(board);
    this.#pictures.set(board, { pixels, changes });
    this.#bytes += pixels.length;
    for (const oldest of this.#pictures.keys()) {
      if (this.#bytes <= this.#maxBytes) {
        return;
      }
      this.#drop(oldest);
    }
  }

  #drop(board: symbol): void {
    this.#bytes -= this.#pictures.get(board)?.pixels.length ?? 0;
    this.#pictures.delete(board);
  }
}
