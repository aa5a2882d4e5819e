// SPDX-License-Identifier: Apache-2.0

/** State of the rows of a step. */
interface Outcome {
  readonly stepType: Uint8Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
}

/** Counts per row. The server of a batch sends them; for seats, the client computes them. */
interface Counted {
  readonly lengths: BigInt64Array;
  readonly returns: Float64Array;
  readonly failed: undefined;
}

const [firstStep, lastStep] = [0, 2];

/** Counts the steps and rewards of seats, because their server does not send counts. */
export class RowCounts {
  readonly #lengths: BigInt64Array;
  readonly #returns: Float64Array;

  constructor(size: number) {
    this.#lengths = new BigInt64Array(size);
    this.#returns = new Float64Array(size);
  }

  /** Counts a step and returns copies of the counts. */
  count(outcome: Outcome, rewards: ArrayLike<number>): Counted {
    for (let row = 0; row < this.#lengths.length; row++) {
      if (outcome.stepType[row] === firstStep) {
        this.#lengths[row] = 0n;
        this.#returns[row] = 0;
      } else if (!isWaiting(outcome, row)) {
        (this.#lengths[row] as bigint) += 1n;
        (this.#returns[row] as number) += rewards[row] as number;
      }
    }
    return { lengths: this.#lengths.slice(), returns: this.#returns.slice(), failed: undefined };
  }

  /**
   * Returns 1 for each row that the step addressed and 0 for each row that waits for a sequence;
   * undefined if no row waits.
   */
  present(outcome: Outcome): Uint8Array | undefined {
    const present = outcome.stepType.map((_, row) => (isWaiting(outcome, row) ? 0 : 1));
    return present.includes(0) ? present : undefined;
  }
}

function isWaiting({ stepType, terminated, truncated }: Outcome, row: number): boolean {
  return stepType[row] === lastStep && terminated[row] === 0 && truncated[row] === 0;
}
