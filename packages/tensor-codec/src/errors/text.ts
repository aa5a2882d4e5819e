// SPDX-License-Identifier: Apache-2.0

/** How many dimensions or characters of something foreign a message repeats. */
const MAX_SHOWN = 16;
const MAX_SHOWN_TEXT = 40;

/** A shape as people write it, `[2, 3]`; a long one is cut. */
export function shapeText(shape: readonly number[]): string {
  const shown = shape.slice(0, MAX_SHOWN).join(", ");
  return shape.length > MAX_SHOWN ? `[${shown}, … ${shape.length} dimensions]` : `[${shown}]`;
}

/** Where a flat index is in a shape: `element [0, 3]`, or `the value` of a scalar. */
export function elementText(index: number, shape: readonly number[]): string {
  if (shape.length === 0) return "the value";
  const at: number[] = new Array(shape.length);
  let rest = index;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] as number;
    at[i] = size > 0 ? rest % size : rest;
    rest = size > 0 ? Math.floor(rest / size) : 0;
  }
  return `element ${shapeText(at)}`;
}

/** A dtype as it stands in a sentence: `an int8`, `a uint8`. */
export function withArticle(dtype: string): string {
  return dtype.startsWith("int") ? `an ${dtype}` : `a ${dtype}`;
}

/** A value of any kind, short enough for a message. */
export function valueText(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `the string ${JSON.stringify(cut(value))}`;
    case "bigint":
      return `the bigint ${cut(String(value))}n`;
    case "number":
      return `the number ${Object.is(value, -0) ? "-0" : value}`;
    case "boolean":
      return `the boolean ${value}`;
    case "object":
      return objectText(value);
    default:
      return typeof value;
  }
}

/** A scalar as it is written in a program: `5`, `5n`, `"five"`. */
export function scalarText(value: number | bigint): string {
  return typeof value === "bigint" ? `${value}n` : Object.is(value, -0) ? "-0" : `${value}`;
}

function objectText(value: object | null): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (ArrayBuffer.isView(value)) {
    const { [Symbol.toStringTag]: tag, length } = value as Uint8Array;
    return length === undefined ? "a DataView" : `a ${tag} of ${length}`;
  }
  if ("$typeName" in value && typeof value.$typeName === "string") {
    return `a message ${cut(value.$typeName)}`;
  }
  if ("dtype" in value && "shape" in value && "data" in value) {
    const shape = Array.isArray(value.shape) ? ` of shape ${shapeText(value.shape)}` : "";
    return `${withArticle(cut(String(value.dtype)))} tensor${shape}`;
  }
  return "an object";
}

const cut = (text: string): string =>
  text.length > MAX_SHOWN_TEXT ? `${text.slice(0, MAX_SHOWN_TEXT)}…` : text;
