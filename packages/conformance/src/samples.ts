// SPDX-License-Identifier: Apache-2.0
import {
  clamp,
  type DType,
  dtypes,
  elementCount,
  type PackedTensor,
  type Tensor,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";
import type { SpecEntry, SpecTable } from "@dm-env-rpc/tensor-codec/proto";
import type { Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentConnection } from "./agent-connection.ts";
import { expectThat } from "./mismatch.ts";
import { requests } from "./requests.ts";
import type { Stage } from "./stage.ts";

/** Joins an agent and steps it until it is RUNNING. */
export async function runningAgent(stage: Stage): Promise<AgentConnection> {
  const agent = await stage.agent();
  await agent.step();
  return agent;
}

/** Checks that an action is refused and that the refusal changes nothing. */
export async function refusesAction(
  agent: AgentConnection,
  entry: SpecEntry,
  tensor: PackedTensor,
  what: string,
): Promise<void> {
  const step = requests.step([], [act(entry, tensor)]);
  await agent.refused(step, `the action "${entry.name}" with ${what}`);
  const { state } = await agent.step();
  expectThat(state === "RUNNING", "RUNNING, as the error changed nothing", state);
}

/** Returns a shape that a spec allows: variable dimensions are 1. */
export function shapeFor(spec: TensorSpec): readonly number[] {
  return spec.shape.map((size) => (size < 0 ? 1 : size));
}

/** Returns a value that a spec allows: zeros, or the nearest values within the bounds. */
export function valueFor(spec: TensorSpec): Tensor {
  const shape = shapeFor(spec);
  const data = dtypes[spec.dtype].allocate(elementCount(shape));
  return clamp({ dtype: spec.dtype, shape, data } as Tensor, spec);
}

/** Returns one element that fills the shape of a spec; undefined if no element is within all bounds. */
export function filler(spec: TensorSpec): Tensor | undefined {
  const value = valueFor(spec);
  const [first] = value.data;
  if (value.data.length === 0 || [...value.data].some((one) => one !== first)) {
    return undefined;
  }
  return { ...value, data: value.data.slice(0, 1) } as Tensor;
}

/** Makes an entry of a step's actions. */
export function act({ uid, spec }: SpecEntry, tensor: PackedTensor = valueFor(spec)): UidTensor {
  return { uid, tensor };
}

/** Returns a value of the same shape and another dtype. */
export function ofAnotherDType(spec: TensorSpec): Tensor {
  const dtype: DType = spec.dtype === "float64" ? "float32" : "float64";
  const shape = shapeFor(spec);
  return { dtype, shape, data: dtypes[dtype].allocate(elementCount(shape)) } as Tensor;
}

/** Returns a UID that is in none of the tables, beyond 2^53 so that a number cannot hold it. */
export function strangeUid(...tables: readonly SpecTable[]): bigint {
  let uid = 2n ** 53n + 1n;
  while (tables.some(({ byUid }) => byUid.has(uid))) {
    uid += 2n;
  }
  return uid;
}

/** Returns the UIDs of a table. */
export function uidsOf({ entries }: SpecTable): Uid[] {
  return entries.map(({ uid }) => uid);
}

/** A bound of one element of a spec. */
export interface Boundary {
  /** Index of the element. */
  readonly at: number;
  /** A value with the element at the bound. */
  readonly within: Tensor;
  /** A value with the element just beyond the bound (twice the bound for floats), if the dtype can hold it. */
  readonly beyond: Tensor | undefined;
}

/** Yields the bounds of each element of a spec. */
export function* boundaries(spec: TensorSpec): Generator<Boundary> {
  const value = valueFor(spec);
  for (const [bound, sign] of [
    [spec.min, -1],
    [spec.max, 1],
  ] as const) {
    if (bound === undefined) {
      continue;
    }
    for (let at = 0; at < value.data.length; at++) {
      const limit = typeof bound === "object" ? (bound[bound.length === 1 ? 0 : at] ?? 0) : bound;
      const next = beyondOf(spec.dtype, limit, sign);
      const beyond = next === undefined ? undefined : withElement(value, at, next);
      yield { at, within: withElement(value, at, limit), beyond };
    }
  }
}

function withElement(value: Tensor, at: number, element: number | bigint): Tensor {
  const data = value.data.slice();
  data[at] = element as never;
  return { ...value, data } as Tensor;
}

/** Returns the integer after a bound, or a float well beyond it. */
function beyondOf(dtype: DType, limit: number | bigint, sign: 1 | -1): number | bigint | undefined {
  const { kind, allocate } = dtypes[dtype];
  if (kind === "float") {
    const next = Number(limit) + sign * Math.max(1, Math.abs(Number(limit)));
    const rounded = allocate(1);
    rounded[0] = next as never;
    return Number.isFinite(rounded[0]) ? next : undefined;
  }
  const next = typeof limit === "bigint" ? limit + BigInt(sign) : limit + sign;
  const range = dtypes[dtype].range as { min: number | bigint; max: number | bigint } | undefined;
  return range !== undefined && (next < range.min || next > range.max) ? undefined : next;
}
