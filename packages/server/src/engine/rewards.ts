// SPDX-License-Identifier: Apache-2.0
import { dtypes, type PackedTensor, type Tensor, TensorError } from "@dm-env-rpc/tensor-codec";

/** The rewards of at least two ticks, added up. */
interface Sum {
  /** The first reward: its dtype and shape are those of the sum. */
  readonly like: Tensor;
  /**
   * Sums of 64-bit integers are kept as bigints, because a BigInt64Array would wrap around
   * silently.
   */
  readonly elements: Float64Array | bigint[];
}

/**
 * A reward that adds up from one response to the next (behaviour 63): in float64 for numbers and
 * exactly for 64-bit integers, rounded once when it is sent.
 */
export class RewardSum {
  #sum: Sum | undefined;
  /** The reward of a single tick. */
  #only: Tensor | undefined;
  /** True if the last tick has a reward that is not in the sum yet. */
  isDue = false;
  /** The reward that was read last; 0 unless it is a number. */
  last = 0;
  /** Sum of all rewards of the sequence. */
  total = 0;

  /** Counts a reward as it is read from the world. */
  count({ shape, data }: PackedTensor): void {
    const reward = data[0];
    if (shape.length === 0 && (typeof reward === "number" || typeof reward === "bigint")) {
      this.last = Number(reward);
      this.total += this.last;
    }
  }

  get isEmpty(): boolean {
    return this.#only === undefined;
  }

  add(reward: Tensor): void {
    if (this.#only === undefined) {
      // The world may reuse its own array for the next tick.
      this.#only = { ...reward, data: reward.data.slice() } as Tensor;
      return;
    }
    this.#sum ??= { like: this.#only, elements: wide(this.#only) };
    addTo(this.#sum, reward);
  }

  /**
   * Returns the sum as a tensor like the added rewards, and resets it; undefined if no reward was
   * added.
   */
  take(): Tensor | undefined {
    const [only, sum] = [this.#only, this.#sum];
    this.#only = undefined;
    this.#sum = undefined;
    return sum === undefined ? only : narrow(sum);
  }

  /** Resets the sum since the last response, and the reward that is due. */
  clear(): void {
    this.isDue = false;
    this.#only = undefined;
    this.#sum = undefined;
  }
}

function wide(reward: Tensor): Sum["elements"] {
  switch (reward.dtype) {
    case "int64":
    case "uint64":
      return Array.from(reward.data);
    case "string":
    case "proto":
    case "bool":
      throw new TensorError({
        reason: "dtype",
        name: "reward",
        expected: "a numeric dtype, which can be added up from tick to tick",
        received: reward.dtype,
        remedy: 'give a non-numeric observation a name other than "reward"',
      });
    case "float32":
    case "float64":
    case "int8":
    case "int32":
    case "uint8":
    case "uint32":
      return Float64Array.from(reward.data);
  }
}

function addTo({ elements }: Sum, reward: Tensor): void {
  if (reward.data.length !== elements.length) {
    throw new TensorError({
      reason: "shape",
      name: "reward",
      expected: `${elements.length} elements, as in the ticks before`,
      received: `${reward.data.length} elements`,
    });
  }
  // All are numbers, or all are bigints.
  const [sum, added] = [elements as Float64Array, reward.data as Float64Array];
  for (let i = 0; i < sum.length; i++) {
    sum[i] = (sum[i] as number) + (added[i] as number);
  }
}

function narrow({ like, elements }: Sum): Tensor {
  const range = dtypes[like.dtype].range as
    | { min: number | bigint; max: number | bigint }
    | undefined;
  const data = dtypes[like.dtype].allocate(elements.length);
  for (let i = 0; i < elements.length; i++) {
    const element = elements[i] as number | bigint;
    if (range !== undefined && (element < range.min || element > range.max)) {
      throw new TensorError({
        reason: "value",
        name: "reward",
        expected: `a sum that fits ${like.dtype}`,
        received: String(element),
        remedy: "give the reward a wider dtype, such as float32",
      });
    }
    data[i] = element;
  }
  return { dtype: like.dtype, shape: like.shape, data } as Tensor;
}
