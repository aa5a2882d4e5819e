// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { DType } from "../src/dtypes/dtype.ts";

/** A tensor as Python decodes it: `data` is its memory in hex, or a list. */
export interface Meaning {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data:
    | string
    | readonly (string | { readonly typeUrl: string; readonly value: string })[];
}

/** A message that the official Python package encoded. */
export interface Golden {
  readonly name: string;
  readonly kind: "tensor" | "request" | "response" | "spec" | "specs";
  readonly bytes: Uint8Array;
  readonly meaning: Meaning | undefined;
}

interface Entry {
  readonly kind: Golden["kind"];
  readonly hex: string;
  readonly meaning?: Meaning;
}

const entries = JSON.parse(
  readFileSync(new URL("../golden/python.golden.json", import.meta.url), "utf8"),
) as Record<string, Entry>;

export const golden: readonly Golden[] = Object.entries(entries).map(
  ([name, { kind, hex, meaning }]) => ({
    name,
    kind,
    bytes: Uint8Array.from(Buffer.from(hex, "hex")),
    meaning,
  }),
);

/** Returns the golden bytes with a name. */
export function goldenBytes(name: string): Uint8Array {
  const found = golden.find((entry) => entry.name === name);
  if (found === undefined) {
    throw new Error(`no golden bytes called "${name}"`);
  }
  return found.bytes;
}
