// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, type Tensor, type TensorSpec } from "@dm-env-rpc/tensor-codec";

/**
 * A reusable tensor of one number. Valid until the next `pack`: its value has been sent by then.
 */
export class ScalarTensor {
  readonly tensor: Tensor;
  readonly #data: { [index: number]: number };
  readonly #isFloat: boolean;
  readonly #least: number;
  readonly #most: number;

  /** Creates one for specs of a number without bounds; undefined for all others. */
  static for(spec: TensorSpec): ScalarTensor | undefined {
    const { dtype, shape, min, max } = spec;
    const { kind } = dtypes[dtype];
    const isNumber = (kind === "float" || kind === "int") && shape.length === 0;
    return isNumber && min === undefined && max === undefined ? new ScalarTensor(dtype) : undefined;
  }

  private constructor(dtype: DType) {
    const data = dtypes[dtype].allocate(1);
    const { min, max } = dtypes[dtype].range ?? {
      min: Number.NEGATIVE_INFINITY,
      max: Number.POSITIVE_INFINITY,
    };
    this.tensor = { dtype, shape: [], data } as Tensor;
    this.#data = data as { [index: number]: number };
    this.#isFloat = dtypes[dtype].kind === "float";
    this.#least = Number(min);
    this.#most = Number(max);
  }

  /** Returns the value as a tensor; undefined for a value that the dtype cannot represent. */
  pack(value: unknown): Tensor | undefined {
    if (typeof value !== "number") {
      return undefined;
    }
    if (!this.#isFloat && !Number.isInteger(value)) {
      return undefined;
    }
    if (value < this.#least || value > this.#most) {
      return undefined;
    }
    this.#data[0] = value;
    // A value that rounds to infinity does not fit either.
    if (Number.isFinite(value) && !Number.isFinite(this.#data[0])) {
      return undefined;
    }
    return this.tensor;
  }
}
