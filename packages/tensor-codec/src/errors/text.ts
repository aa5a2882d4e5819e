// SPDX-License-Identifier: Apache-2.0

/** Maximum number of dimensions of a shape that an error message contains. */
const maxShown = 16;
/** Maximum number of characters of a received text that an error message contains. */
const maxShownText = 40;

/** Formats a shape, such as `[2, 3]`; of a long shape, only the first dimensions. */
export function shapeText(shape: readonly number[]): string {
  const shown = shape.slice(0, maxShown).join(", ");
  return shape.length > maxShown ? `[${shown}, … ${shape.length} dimensions]` : `[${shown}]`;
}

/** Formats a flat index as a position in a shape: `element [0, 3]`, or `the value` for a scalar. */
export function elementText(index: number, shape: readonly number[]): string {
  if (shape.length === 0) {
    return "the value";
  }
  const at: number[] = new Array(shape.length);
  let rest = index;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] as number;
    at[i] = size > 0 ? rest % size : rest;
    rest = size > 0 ? Math.floor(rest / size) : 0;
  }
  return `element ${shapeText(at)}`;
}

/** Puts an article before a dtype: `an int8`, `a uint8`. */
export function withArticle(dtype: string): string {
  return dtype.startsWith("int") ? `an ${dtype}` : `a ${dtype}`;
}

/** Formats any value, short enough for a message. */
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

/** Formats a scalar as a literal: `5`, `5n`. */
export function scalarText(value: number | bigint): string {
  return typeof value === "bigint" ? `${value}n` : Object.is(value, -0) ? "-0" : `${value}`;
}

function objectText(value: object | null): string {
  if (value === null) {
    return "null";
  }
  if (Array.isArray(value)) {
    return `an array of ${value.length}`;
  }
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
  text.length > maxShownText ? `${text.slice(0, maxShownText)}…` : text;
