// SPDX-License-Identifier: Apache-2.0
import { equals as equalMessages } from "@bufbuild/protobuf";
import {
  CreateWorldResponseSchema,
  ListPropertyResponseSchema,
  ReadPropertyResponseSchema,
} from "@dm-env-rpc/protocol";
import { equalSpecs, equals, type PackedTensor } from "@dm-env-rpc/tensor-codec";
import type { SpecTable } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse, StepResponse, Uid } from "@dm-env-rpc/tensor-codec/wire";
import { type SpecTables, tablesOf } from "../environment/join-specs.ts";

/** Difference between two responses. */
export interface ResponseDifference {
  /** Location of the difference: `state`, `observation "board", element 17` … */
  readonly where: string;
  readonly expected: string;
  readonly received: string;
}

/** The specs of the recording and of the replay, to which their UIDs refer. */
export interface BothTables {
  readonly expected: SpecTables;
  readonly received: SpecTables;
}

/**
 * Returns the first difference between a response and the recorded one. World names and UIDs may
 * differ, because the server chooses them.
 */
export function compareResponses(
  expected: ProcessResponse,
  received: ProcessResponse,
  tables: BothTables | undefined,
): ResponseDifference | undefined {
  if (expected.case !== received.case) {
    return difference("kind", describeKind(expected), describeKind(received));
  }
  switch (expected.case) {
    case "step":
      return received.case === "step"
        ? compareSteps(expected.value, received.value, tables)
        : undefined;
    case "joinWorld":
    case "reset":
      return received.case === "joinWorld" || received.case === "reset"
        ? compareTables(tablesOf(expected.value.specs), tablesOf(received.value.specs))
        : undefined;
    case "error":
      if (received.case !== "error" || expected.value.code === received.value.code) {
        return undefined;
      }
      return difference("error", describeKind(expected), describeKind(received));
    case "readProperty":
      return received.case === "readProperty" &&
        !equalMessages(ReadPropertyResponseSchema, expected.value, received.value)
        ? difference("properties", "the recorded properties", "other properties")
        : undefined;
    case "listProperty":
      return received.case === "listProperty" &&
        !equalMessages(ListPropertyResponseSchema, expected.value, received.value)
        ? difference("properties", "the recorded properties", "other properties")
        : undefined;
    case "extension": {
      if (received.case !== "extension") {
        return undefined;
      }
      const { typeUrl, value } = received.value;
      return typeUrl === expected.value.typeUrl && Buffer.compare(value, expected.value.value) === 0
        ? undefined
        : difference("extension", expected.value.typeUrl, typeUrl);
    }
    default:
      return undefined;
  }
}

/** Returns the name that a server gave to a new world; undefined for other responses. */
export function worldNameOf(response: ProcessResponse): string | undefined {
  return response.case === "createWorld" &&
    response.value.$typeName === CreateWorldResponseSchema.typeName
    ? response.value.worldName
    : undefined;
}

function compareSteps(
  expected: StepResponse,
  received: StepResponse,
  tables: BothTables | undefined,
): ResponseDifference | undefined {
  if (expected.state !== received.state) {
    return difference("state", String(expected.state), String(received.state));
  }
  const was = byName(expected, tables?.expected.observations);
  const is = byName(received, tables?.received.observations);
  for (const name of new Set([...was.keys(), ...is.keys()])) {
    const found = compareTensors(`observation "${name}"`, was.get(name), is.get(name));
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

function byName(
  { observations }: StepResponse,
  table: SpecTable | undefined,
): Map<string, PackedTensor> {
  const nameOf = (uid: Uid): string => table?.byUid.get(uid)?.name ?? `UID ${uid}`;
  return new Map(
    observations.flatMap(({ uid, tensor }) =>
      tensor.dtype === "unset" ? [] : [[nameOf(uid), tensor]],
    ),
  );
}

function compareTensors(
  where: string,
  expected: PackedTensor | undefined,
  received: PackedTensor | undefined,
): ResponseDifference | undefined {
  if (expected === undefined || received === undefined) {
    return difference(where, expected ? "present" : "absent", received ? "present" : "absent");
  }
  if (equals(expected, received)) {
    return undefined;
  }
  const [was, is] = [
    `${expected.dtype} [${expected.shape}]`,
    `${received.dtype} [${received.shape}]`,
  ];
  if (was !== is) {
    return difference(where, was, is);
  }
  const count = Math.max(expected.data.length, received.data.length);
  for (let i = 0; i < count; i++) {
    const [a, b] = [expected.data[i], received.data[i]];
    if (!Object.is(a, b) && a !== b) {
      return difference(`${where}, element ${i}`, `${a}`, `${b}`);
    }
  }
  return difference(where, "the recorded tensor", "another tensor");
}

function compareTables(expected: SpecTables, received: SpecTables): ResponseDifference | undefined {
  for (const kind of ["actions", "observations"] as const) {
    const [was, is] = [expected[kind].byName, received[kind].byName];
    for (const name of new Set([...was.keys(), ...is.keys()])) {
      const [a, b] = [was.get(name)?.spec, is.get(name)?.spec];
      if (a !== undefined && b !== undefined && equalSpecs(a, b)) {
        continue;
      }
      const text = (spec: typeof a) => (spec ? `${spec.dtype} [${spec.shape}]` : "absent");
      return difference(`the spec of "${name}" in the ${kind}`, text(a), text(b));
    }
  }
  return undefined;
}

function describeKind(response: ProcessResponse): string {
  return response.case === "error"
    ? `error ${response.value.code}: ${response.value.message}`
    : (response.case ?? "nothing");
}

function difference(where: string, expected: string, received: string): ResponseDifference {
  return { where, expected, received };
}
