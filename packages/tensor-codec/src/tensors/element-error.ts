// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { elementText, valueText, withArticle } from "../errors/text.ts";

/** The tensor of an element that an error names. */
export interface Destination {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly name?: string | undefined;
}

/** Creates the error for a value that cannot be the element at an index. */
export function elementError(
  reason: "dtype" | "value",
  expected: string,
  value: unknown,
  index: number,
  { dtype, shape, name }: Destination,
  remedy?: string,
): TensorError {
  return new TensorError({
    reason,
    name,
    expected: `${expected} as ${elementText(index, shape)} of ${withArticle(dtype)} tensor`,
    received: valueText(value),
    remedy,
  });
}

/** Creates the error for a string that has no UTF-8 encoding. */
export function loneSurrogate(
  what: string,
  value: unknown,
  index: number,
  to: Destination,
): TensorError {
  const expected = `${what} without lone surrogates`;
  return elementError("value", expected, value, index, to, "use toWellFormed()");
}
