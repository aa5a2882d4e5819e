// SPDX-License-Identifier: Apache-2.0
import {
  dtypes,
  elementCount,
  flattenSpecs,
  packFor,
  type Specs,
  type Tensor,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";
import { place } from "../nested.ts";
import { type ObservationChecks, sampleEvery } from "../observation-checks.ts";

/** Number of elements up to which a loop copies faster than a call. */
const few = 16;

interface Elements {
  [index: number]: unknown;
  readonly length: number;
}

/** The values of one observation for all slots, contiguous: a row for each slot. */
export class Column {
  readonly name: string;
  readonly path: readonly string[];
  /** The values of all slots, which the column overwrites. */
  readonly tensor: Tensor;
  readonly #spec: TensorSpec;
  /** The spec without its bounds. */
  readonly #plain: TensorSpec;
  readonly #data: Elements;
  readonly #isArray: boolean;
  readonly #isFloat: boolean;
  readonly #isInt: boolean;
  readonly #isNumeric: boolean;
  /** Elements of a row. */
  readonly #width: number;
  readonly #least: number;
  readonly #most: number;
  readonly #checks: ObservationChecks;
  readonly #isBounded: boolean;
  readonly #min: number | undefined;
  readonly #max: number | undefined;
  readonly #holds: (value: unknown) => boolean;
  #checked = 0;

  constructor(name: string, spec: TensorSpec, size: number, checks: ObservationChecks) {
    const { dtype, shape, min, max } = spec;
    const { kind, range } = dtypes[dtype];
    this.name = name;
    this.path = name.split(".");
    this.#spec = spec;
    this.#plain = { dtype, shape };
    this.#width = elementCount(shape);
    const data = dtypes[dtype].allocate(size * this.#width);
    this.tensor = { dtype, shape: [size, ...shape], data } as Tensor;
    this.#data = data as Elements;
    this.#isArray = shape.length > 0;
    this.#isFloat = kind === "float";
    this.#isInt = kind === "int";
    this.#isNumeric = kind === "bigint" || this.#isFloat || this.#isInt;
    const largest = dtype === "float32" ? 3.4028234663852886e38 : Number.MAX_VALUE;
    this.#least = kind === "int" ? Number(range?.min) : -largest;
    this.#most = kind === "int" ? Number(range?.max) : largest;
    this.#checks = checks;
    this.#isBounded = min !== undefined || max !== undefined;
    this.#min = typeof min === "number" ? min : undefined;
    this.#max = typeof max === "number" ? max : undefined;
    this.#holds = dtypes[dtype].holds;
  }

  /**
   * Validates an environment's value for one slot.
   *
   * @returns The argument of `write`: the value itself, or its elements.
   * @throws TensorError if it does not fit the spec.
   */
  accept(value: unknown): unknown {
    const isChecked = this.#isBounded && this.#isChecked();
    if (isChecked ? this.#isPlainWithin(value) : this.#isPlain(value)) {
      return value;
    }
    const { data } = packFor(value, isChecked ? this.#spec : this.#plain, this.name);
    return this.#isArray ? data : data[0];
  }

  #isChecked(): boolean {
    if (this.#checks !== "sampled") {
      return this.#checks === "always";
    }
    this.#checked += 1;
    return this.#checked % sampleEvery === 1;
  }

  /** True for the common cases: numbers, typed arrays, and flat arrays of numbers. */
  #isPlain(value: unknown): boolean {
    if (typeof value === "number") {
      return !this.#isArray && this.#isNumber(value);
    }
    if (!this.#isArray || typeof value !== "object") {
      return false;
    }
    if (Array.isArray(value)) {
      return this.#isFlat(value);
    }
    return this.#isNumeric && this.#holds(value) && (value as Elements).length === this.#width;
  }

  #isNumber(value: number): boolean {
    if (!(value >= this.#least && value <= this.#most)) {
      return false;
    }
    return this.#isFloat || (this.#isInt && Number.isInteger(value));
  }

  #isFlat(values: readonly unknown[]): boolean {
    if (this.#plain.shape.length !== 1 || values.length !== this.#width) {
      return false;
    }
    for (let i = 0; i < values.length; i++) {
      const value = values[i];
      if (typeof value !== "number" || !this.#isNumber(value)) {
        return false;
      }
    }
    return true;
  }

  /** True if `#isPlain` is true and all values are within scalar bounds. */
  #isPlainWithin(value: unknown): boolean {
    const { min, max } = this.#spec;
    if (typeof min === "object" || typeof max === "object" || !this.#isPlain(value)) {
      return false;
    }
    if (typeof value === "number") {
      return this.#isWithin(value);
    }
    const elements = value as Elements;
    for (let i = 0; i < elements.length; i++) {
      const element = elements[i];
      if (typeof element !== "number" || !this.#isWithin(element)) {
        return false;
      }
    }
    return true;
  }

  #isWithin(value: number): boolean {
    const [least, most] = [this.#min, this.#max];
    return (least === undefined || value >= least) && (most === undefined || value <= most);
  }

  /** Writes an accepted value into a slot's row. */
  write(slot: number, accepted: unknown): void {
    if (this.#isArray) {
      this.#copy(accepted as Elements, 0, slot);
    } else {
      this.#data[slot] = accepted;
    }
  }

  #copy(source: Elements, from: number, slot: number): void {
    const width = this.#width;
    const at = slot * width;
    if (width > few && ArrayBuffer.isView(source)) {
      const elements = source as unknown as Uint8Array;
      const row = source.length === width ? elements : elements.subarray(from, from + width);
      (this.#data as Uint8Array).set(row, at);
      return;
    }
    for (let i = 0; i < width; i++) {
      this.#data[at + i] = source[from + i];
    }
  }

  /** Fills a slot's row with zeros. */
  clear(slot: number): void {
    const zeros = dtypes[this.#plain.dtype].allocate(this.#width);
    this.write(slot, this.#isArray ? zeros : zeros[0]);
  }

  /** Copies a slot's row from another column of the same spec. */
  copyRow(other: Column, slot: number): void {
    this.#copy(other.#data, slot * this.#width, slot);
  }
}

/** Creates a column for each spec, with the spec's full name. */
export function columnsOf(
  specs: Specs,
  size: number,
  checks: ObservationChecks,
): readonly Column[] {
  return Object.entries(flattenSpecs(specs)).map(
    ([name, spec]) => new Column(name, spec, size, checks),
  );
}

/** Returns the `observe` functions of columns. Each returns the column's tensor without a copy. */
export function observersOf(columns: readonly Column[]): Record<string, unknown> {
  const observers: Record<string, unknown> = {};
  for (const { path, tensor } of columns) {
    place(observers, path, () => tensor);
  }
  return observers;
}
