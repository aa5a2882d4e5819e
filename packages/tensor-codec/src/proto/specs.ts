// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type ActionObservationSpecs,
  ActionObservationSpecsSchema,
  type TensorSpec as TensorSpecMessage,
  TensorSpecSchema,
  type TensorSpec_Value as ValueMessage,
  TensorSpec_ValueSchema as ValueSchema,
} from "@dm-env-rpc/protocol";
import { type DType, dtypes, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText, valueText, withArticle } from "../errors/text.ts";
import { checkDefinition } from "../specs/definition.ts";
import type { TensorSpec } from "../specs/spec.ts";
import { isElement } from "../tensors/elements.ts";
import { elementCount, isVariable } from "../tensors/tensor.ts";
import type { Uid } from "../wire/primitives/uid.ts";
import { type SpecEntry, type SpecTable, tableOf } from "./spec-table.ts";
import { dataOf, dtypeOf, dtypeOfPayload, payloadOf } from "./tensors.ts";

type Ordered = number | bigint;
type AnyBound = Ordered | TensorData | undefined;

/** A spec with its name. */
export interface NamedSpec {
  readonly name: string;
  readonly spec: TensorSpec;
}

/**
 * Packs a spec into its generated message. Only declared bounds are sent, except that an integer
 * spec with one bound gets the other from its dtype, because dm_env_rpc 1.1.6 fails on a single bound
 * (behaviour 16).
 *
 * @throws TensorError `spec` for a spec that the builders refuse.
 */
export function packSpec(name: string, spec: TensorSpec): TensorSpecMessage {
  checkDefinition(spec, name);
  const { dtype, shape } = spec;
  const { range, dataType } = dtypes[dtype];
  const bounded = spec.min !== undefined || spec.max !== undefined;
  const min = (spec.min ?? (bounded ? range?.min : undefined)) as AnyBound;
  const max = (spec.max ?? (bounded ? range?.max : undefined)) as AnyBound;
  return create(TensorSpecSchema, {
    name,
    shape: [...shape],
    dtype: dataType,
    ...(min !== undefined && { min: packBound(dtype, min) }),
    ...(max !== undefined && { max: packBound(dtype, max) }),
  });
}

/**
 * Unpacks the spec in a generated message. Reads the scalar bounds of servers before 1.1.0, too.
 *
 * @throws TensorError `spec`: an unknown dtype, a bound of another dtype or of
 * another number of elements, two variable dimensions.
 */
export function unpackSpec(message: TensorSpecMessage): NamedSpec {
  const { name, shape } = message;
  const dtype = dtypeOf(message.dtype);
  if (dtype === undefined) {
    throw unreadable(name, "a spec with a dtype", `DataType ${message.dtype}`);
  }
  if (shape.filter((size) => size < 0).length > 1) {
    throw unreadable(name, "at most one variable (negative) dimension", shapeText(shape));
  }
  const min = unpackBound(message, message.min, dtype, "min");
  const max = unpackBound(message, message.max, dtype, "max");
  const spec = {
    dtype,
    shape: [...shape],
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
  };
  return { name, spec: spec as TensorSpec };
}

/** Packs the specs of an agent, as JoinWorldResponse and ResetResponse carry them. */
export function packSpecs(specs: {
  readonly actions: SpecTable;
  readonly observations: SpecTable;
}): ActionObservationSpecs {
  return create(ActionObservationSpecsSchema, {
    actions: packTable(specs.actions),
    observations: packTable(specs.observations),
  });
}

/**
 * Unpacks the specs of an agent.
 *
 * @throws TensorError `name` for a duplicate name, `spec` as `unpackSpec` does.
 */
export function unpackSpecs(message: ActionObservationSpecs | undefined): {
  readonly actions: SpecTable;
  readonly observations: SpecTable;
} {
  return {
    actions: unpackTable(message?.actions ?? {}, "actions"),
    observations: unpackTable(message?.observations ?? {}, "observations"),
  };
}

function packTable(table: SpecTable): Record<string, TensorSpecMessage> {
  const packed: Record<string, TensorSpecMessage> = {};
  for (const { uid, name, spec } of table.entries) {
    packed[String(uid)] = packSpec(name, spec);
  }
  return packed;
}

function unpackTable(
  specs: Readonly<Record<string, TensorSpecMessage>>,
  what: "actions" | "observations",
): SpecTable {
  const names = new Set<string>();
  const entries: SpecEntry[] = [];
  for (const [key, message] of Object.entries(specs)) {
    const { name, spec } = unpackSpec(message);
    if (names.has(name)) {
      throw new TensorError({
        reason: "name",
        name,
        expected: `names that are unique within ${what}`,
        received: `"${name}" twice`,
      });
    }
    names.add(name);
    entries.push({ uid: uidOf(key), name, spec });
  }
  return tableOf(entries);
}

/** A UID from the key of a generated map, which is decimal text. */
function uidOf(key: string): Uid {
  const uid = BigInt(key);
  return uid <= Number.MAX_SAFE_INTEGER ? Number(uid) : uid;
}

function packBound(dtype: DType, bound: Ordered | TensorData): ValueMessage {
  let data: TensorData;
  if (typeof bound === "object") {
    data = bound;
  } else {
    data = dtypes[dtype].allocate(1);
    data[0] = bound as never;
  }
  return create(ValueSchema, {
    payload: payloadOf(dtype, data) as ValueMessage["payload"],
  } as Pick<ValueMessage, "payload">);
}

/** The scalar fields that servers before 1.1.0 send as bounds, by dtype. */
const legacyScalars: Readonly<Record<string, DType>> = {
  float: "float32",
  double: "float64",
  int32: "int32",
  int64: "int64",
  uint32: "uint32",
  uint64: "uint64",
  int8: "int8",
  uint8: "uint8",
};

function unpackBound(
  { name, shape }: TensorSpecMessage,
  message: ValueMessage | undefined,
  dtype: DType,
  side: "min" | "max",
): Ordered | TensorData | undefined {
  const payload = message?.payload;
  if (payload?.case === undefined) {
    return undefined;
  }
  const legacy = legacyScalars[payload.case];
  const found = legacy ?? dtypeOfPayload(payload);
  if (found !== dtype) {
    throw unreadable(name, `${side} of the spec's dtype, ${dtype}`, `${side} of ${found}`);
  }
  if (legacy !== undefined) {
    const value = payload.value as unknown;
    if (!isElement(elementTypes[dtype], value)) {
      throw unreadable(name, `${withArticle(dtype)} as ${side}`, valueText(value));
    }
    return value as Ordered;
  }
  const data = dataOf(dtype, payload);
  if (data.length === 1) {
    return data[0] as Ordered;
  }
  if (isVariable(shape) || data.length !== elementCount(shape)) {
    throw unreadable(
      name,
      `${side} of one element${isVariable(shape) ? "" : ` or of ${elementCount(shape)}`} for shape ${shapeText(shape)}`,
      `${data.length}`,
    );
  }
  return data.slice() as TensorData;
}

function unreadable(name: string, expected: string, received: string): TensorError {
  return new TensorError({ reason: "spec", name, expected, received });
}
