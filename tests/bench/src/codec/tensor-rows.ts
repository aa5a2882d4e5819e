// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { TensorSchema } from "@dm-env-rpc/protocol";
import type { PackedTensor } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { decodeTensor, encodeTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { Contestant } from "./measure.ts";
import { loadProtobufjs } from "./protobufjs.ts";
import { tensorCases } from "./tensors.ts";

/** Least speed of our codec, as a multiple of another contestant's. */
export interface Goal {
  readonly against: "generated" | "protobufjs" | "memcpy";
  readonly speed: number;
}

/** One row of the table before it is measured. */
export interface Race {
  readonly what: string;
  readonly contestants: readonly Contestant[];
  readonly goals: readonly Goal[];
}

/** Within 1.3 times a memcpy. */
const memcpySpeed: readonly Goal[] = [{ against: "memcpy", speed: 1 / 1.3 }];
const varintSpeed: readonly Goal[] = [
  { against: "protobufjs", speed: 0.9 },
  { against: "generated", speed: 2.5 },
];

const goalsOf = ({ dtype }: PackedTensor): readonly Goal[] =>
  dtype === "string"
    ? []
    : dtype.startsWith("float") || dtype === "uint8"
      ? memcpySpeed
      : varintSpeed;

/** Every tensor, encoded from ready data and decoded. */
export function tensorRaces(): readonly Race[] {
  const protobufjs = loadProtobufjs("dm_env_rpc.v1.Tensor");
  return tensorCases().flatMap(({ name, tensor }) => {
    const message = packTensor(tensor);
    const bytes = encodeTensor(tensor);
    const foreign = protobufjs.decode(bytes);
    const goals = goalsOf(tensor);
    // A typed array; memcpy of strings would be meaningless.
    const memory = ArrayBuffer.isView(tensor.data)
      ? new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength)
      : undefined;
    const memcpy: readonly Contestant[] =
      memory === undefined ? [] : [{ name: "memcpy", run: () => copyOf(memory) }];
    const decode = (what: string, from: Uint8Array): Race => ({
      what,
      contestants: [
        { name: "generated", run: () => fromBinary(TensorSchema, from) },
        { name: "protobufjs", run: () => protobufjs.decode(from) },
        { name: "ours", run: () => decodeTensor(from) },
        ...memcpy,
      ],
      goals,
    });
    const races = [
      {
        what: `encode ${name}`,
        contestants: [
          { name: "generated", run: () => toBinary(TensorSchema, message) },
          { name: "protobufjs", run: () => protobufjs.encode(foreign) },
          { name: "ours", run: () => encodeTensor(tensor) },
          ...memcpy,
        ],
        goals,
      },
    ];
    if (tensor.dtype !== "float32") {
      return [...races, decode(`decode ${name}`, bytes)];
    }
    return [
      ...races,
      decode(`decode ${name}, aligned`, shifted(bytes, firstFloat(bytes), 0)),
      decode(`decode ${name}, misaligned`, shifted(bytes, firstFloat(bytes), 1)),
    ];
  });
}

/** Offset of the first float in an encoded tensor, after two tags and two lengths. */
function firstFloat(bytes: Uint8Array): number {
  let at = 1;
  while ((bytes[at] as number) > 0x7f) {
    at++;
  }
  at += 2;
  while ((bytes[at] as number) > 0x7f) {
    at++;
  }
  return at + 1;
}

/** The same bytes at an offset that puts their float at `remainder` modulo 4. */
function shifted(bytes: Uint8Array, float: number, remainder: number): Uint8Array {
  const offset = (4 - (float % 4) + remainder) % 4;
  const copy = new Uint8Array(offset + bytes.length);
  copy.set(bytes, offset);
  return copy.subarray(offset);
}

/** A fresh array, and a memcpy into it. */
function copyOf(memory: Uint8Array): Uint8Array {
  const fresh = new Uint8Array(memory.length);
  fresh.set(memory);
  return fresh;
}
