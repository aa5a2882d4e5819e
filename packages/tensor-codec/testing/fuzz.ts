// SPDX-License-Identifier: Apache-2.0
import { isTensorError } from "../src/errors/tensor-error.ts";
import { unpack } from "../src/packing/unpack.ts";
import type { PackedTensor, UnsetTensor } from "../src/tensors/tensor.ts";
import {
  createRequestCodec,
  createResponseCodec,
  decodeTensor,
  encodeTensor,
} from "../src/wire/index.ts";
import type { Malformed, MessageCodec } from "../src/wire/messages.ts";
import type { UidTensor } from "../src/wire/steps/step.ts";
import { bitsOf } from "./bits.ts";

/** Limits of a tensor while fuzzing. */
const limits = { maxElements: 1000, maxStringBytes: 1000 };

const requests = createRequestCodec(limits);
const responses = createResponseCodec(limits);

/**
 * Feeds bytes to every decoder and checks the result: a typed error, or a
 * message that survives encoding and decoding. Throws otherwise.
 */
export function fuzzOne(bytes: Uint8Array): "message" | "error" {
  const results = [
    fuzzMessage(requests, createRequestCodec(limits), bytes),
    fuzzMessage(responses, createResponseCodec(limits), bytes),
    fuzzTensor(bytes),
  ];
  return results.includes("message") ? "message" : "error";
}

/** Compares `codec`, which has learned layouts of earlier messages, with a `fresh` one. */
function fuzzMessage<T extends { readonly case: string | undefined; readonly value?: unknown }>(
  codec: MessageCodec<T>,
  fresh: MessageCodec<T>,
  bytes: Uint8Array,
): "message" | "error" {
  const read = codec.read(bytes, 0, bytes.length);
  if (show(fresh.read(bytes, 0, bytes.length)) !== show(read)) {
    throw new Error("a known layout makes another message of the same bytes");
  }
  if (read.case === "malformed") {
    const { value } = read as Malformed;
    if (!isTensorError(value)) {
      throw new Error("malformed without a TensorError", { cause: value });
    }
    return "error";
  }
  const message = read as T;
  const again = new Uint8Array(codec.size(message));
  const end = codec.write(message, again, 0);
  if (end !== again.length) {
    throw new Error(`wrote ${end} bytes, not ${again.length}`);
  }
  if (!Buffer.from(again).equals(written(fresh, message))) {
    throw new Error("a known layout makes other bytes of the same message");
  }
  const reread = codec.read(again, 0, again.length) as T;
  if (show(reread) !== show(message)) {
    throw new Error("a message changed on the way");
  }
  if (message.case === "step") {
    for (const tensor of tensorsIn(message.value)) {
      tryUnpack(tensor);
    }
  }
  return "message";
}

function written<T>(codec: MessageCodec<T>, message: T): Uint8Array {
  const bytes = new Uint8Array(codec.size(message));
  codec.write(message, bytes, 0);
  return bytes;
}

function fuzzTensor(bytes: Uint8Array): "message" | "error" {
  let tensor: PackedTensor;
  try {
    tensor = decodeTensor(bytes, limits);
  } catch (error) {
    if (!isTensorError(error)) {
      throw error;
    }
    return "error";
  }
  const again = decodeTensor(encodeTensor(tensor), limits);
  if (show(bitsOf(again)) !== show(bitsOf(tensor))) {
    throw new Error("a tensor changed on the way");
  }
  tryUnpack(tensor);
  return "message";
}

function tryUnpack(tensor: PackedTensor | UnsetTensor): void {
  try {
    unpack(tensor, limits);
  } catch (error) {
    if (!isTensorError(error)) {
      throw error;
    }
  }
}

function tensorsIn(step: unknown): readonly (PackedTensor | UnsetTensor)[] {
  const { actions = [], observations = [] } = step as Record<string, readonly UidTensor[]>;
  return [...actions, ...observations].map(({ tensor }) => tensor);
}

/** Converts a message to text: tensors by their bits, errors by their message. */
export function show(message: unknown): string {
  return JSON.stringify(message, (_, value: unknown) => {
    if (typeof value === "bigint") {
      return `${value}n`;
    }
    if (typeof value === "number" && !Number.isFinite(value)) {
      return `${value}`;
    }
    if (Object.is(value, -0)) {
      return "-0";
    }
    if (value instanceof Error) {
      return value.message;
    }
    if (ArrayBuffer.isView(value)) {
      const { buffer, byteOffset, byteLength } = value;
      return Buffer.from(new Uint8Array(buffer, byteOffset, byteLength)).toString("hex");
    }
    return value;
  });
}
