// SPDX-License-Identifier: Apache-2.0
// Our codec as a filter: each line of standard input is a request in JSON, each line of standard output
// its answer. Bytes are base64; an answer is {bytes} or {refused: reason}.
import { createInterface } from "node:readline";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { TensorSpecSchema } from "@dm-env-rpc/protocol";
import {
  type DType,
  dtypes,
  isTensorError,
  type PackValue,
  pack,
  type Tensor,
  type TensorSpec,
  unpack,
} from "@dm-env-rpc/tensor-codec";
import { packSpec, unpackSpec } from "@dm-env-rpc/tensor-codec/proto";
import { decodeTensor, encodeTensor } from "@dm-env-rpc/tensor-codec/wire";

type Request =
  /** Reads a Tensor and packs what it says, whole. */
  | { readonly do: "unpack"; readonly bytes: string }
  /** Packs raw elements of a dtype and a shape. */
  | {
      readonly do: "pack";
      readonly dtype: DType;
      readonly shape: readonly number[];
      readonly raw: string;
      readonly strings?: readonly string[];
      readonly compress: boolean;
    }
  /** Packs nested lists of numbers. */
  | { readonly do: "pack lists"; readonly dtype: DType; readonly value: unknown }
  /** Unpacks a TensorSpec and packs it again. */
  | { readonly do: "spec"; readonly bytes: string };

const bytesOf = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "base64"));
const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

/** Decodes elements of a dtype from little-endian bytes, as in NumPy. */
function elementsOf(dtype: DType, raw: Uint8Array): Tensor["data"] {
  const { bytes } = dtypes[dtype];
  const data = dtypes[dtype].allocate(raw.length / bytes);
  new Uint8Array((data as Uint8Array).buffer).set(raw);
  return data;
}

function answer(request: Request): Uint8Array {
  switch (request.do) {
    case "unpack":
      return encodeTensor(unpack(decodeTensor(bytesOf(request.bytes))));
    case "pack": {
      const { dtype, shape, raw, strings, compress } = request;
      const data = strings ?? elementsOf(dtype, bytesOf(raw));
      return encodeTensor(pack({ dtype, shape, data } as Tensor, { compress }));
    }
    case "pack lists": {
      return encodeTensor(pack(request.value as PackValue, { dtype: request.dtype }));
    }
    case "spec": {
      const { name, spec } = unpackSpec(fromBinary(TensorSpecSchema, bytesOf(request.bytes)));
      return toBinary(TensorSpecSchema, packSpec(name, spec as TensorSpec));
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let result: { bytes: string } | { refused: string };
  try {
    result = { bytes: textOf(answer(JSON.parse(line) as Request)) };
  } catch (error) {
    if (!isTensorError(error)) {
      throw error;
    }
    result = { refused: `${error.reason}: ${error.message}` };
  }
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
