// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import type { Tensor } from "../src/tensors/tensor.ts";
import type { Uid } from "../src/wire/primitives/uid.ts";
import { tensors, uids } from "./arbitraries.ts";
import { type Choices, layRepeated, layTensor, shuffleTogether, unknown } from "./layouts.ts";
import { type Bytes, delimited, varint, varintField } from "./protobuf.ts";

/** One entry of a map, before it is encoded. */
export interface Entry {
  readonly uid: Uid;
  readonly tensor: Tensor;
}

/** The content of a step of either direction. */
export interface Step {
  readonly entries: readonly Entry[];
  /** Requested UIDs, or the states of a response, of which the last one counts. */
  readonly numbers: readonly Uid[];
}

/** Draws steps in which some UIDs are repeated. */
export const steps: fc.Arbitrary<Step> = fc.record({
  entries: fc.array(fc.record({ uid: fc.oneof(uids, fc.nat(3)), tensor: tensors }), {
    maxLength: 8,
  }),
  numbers: fc.array(fc.oneof(uids, fc.nat(3)), { maxLength: 8 }),
});

/** Encodes an entry: key and value in any order, repeated, or absent. */
function layEntry({ uid, tensor }: Entry, choose: Choices): number[] {
  const key = varintField(1, uid);
  const value = layTensor(tensor, choose);
  const odd = unknown(choose, 3);
  switch (choose.nat(9)) {
    case 9:
      return [...delimited(2, value), ...odd, ...key];
    case 8: // no value
      return key;
    case 7: // no key, which is key 0
      return delimited(2, value);
    case 6: // a value in two parts, which merge
      return [...key, ...delimited(2, value), ...odd, ...delimited(2, value)];
    case 5: // three parts, one of them empty, and two keys
      return [
        ...varintField(1, 77),
        ...delimited(2, value),
        ...key,
        ...delimited(2, []),
        ...delimited(2, layTensor(tensor, choose)),
      ];
    default:
      return [...key, ...odd, ...delimited(2, value)];
  }
}

/** Encodes a StepRequest, split into one or several parts. */
export function layStepRequest({ entries, numbers }: Step, choose: Choices): number[][] {
  const actions = entries.map((entry) => delimited(1, layEntry(entry, choose)));
  const requested = layRepeated(
    2,
    0,
    numbers.map((uid) => varint(uid, choose.nat(9) === 9 ? choose.nat(9) : 0)),
    choose,
  );
  return split(shuffleTogether([actions, requested], choose), choose);
}

/** Encodes a StepResponse, split into one or several parts. */
export function layStepResponse({ entries, numbers }: Step, choose: Choices): number[][] {
  const observations = entries.map((entry) => delimited(2, layEntry(entry, choose)));
  const states = numbers.map((state) => varintField(1, state));
  return split(shuffleTogether([observations, states], choose), choose);
}

/**
 * Encodes an envelope with a step in several parts, sometimes with another payload before,
 * between or after them.
 */
export function layEnvelope(
  parts: readonly Bytes[],
  others: readonly Bytes[],
  choose: Choices,
): Uint8Array {
  const bytes: number[] = [];
  const other = () => others[choose.nat(others.length - 1)] as Bytes;
  if (choose.nat(3) === 3) {
    bytes.push(...other());
  }
  for (const part of parts) {
    if (choose.nat(9) === 9) {
      bytes.push(...other());
    }
    bytes.push(...unknown(choose, 20), ...delimited(3, part));
  }
  if (choose.nat(9) === 9) {
    bytes.push(...other(), ...other());
  }
  return Uint8Array.from([...bytes, ...unknown(choose, 20)]);
}

function split(fields: readonly number[][], choose: Choices): number[][] {
  const parts: number[][] = [[]];
  for (const field of fields) {
    if (choose.nat(7) === 7) {
      parts.push([]);
    }
    (parts.at(-1) as number[]).push(...unknown(choose, 16), ...field);
  }
  return parts;
}
