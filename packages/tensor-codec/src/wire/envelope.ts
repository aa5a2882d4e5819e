// SPDX-License-Identifier: Apache-2.0
import {
  type DescMessage,
  fromBinary,
  type Message,
  mergeFromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import { TensorError } from "../errors/tensor-error.ts";
import { MessageScanner } from "./message-scanner.ts";
import type { Malformed, MessageCodec } from "./messages.ts";
import { type CodecOptions, readOptionsOf } from "./primitives/read-options.ts";
import { objectWork, Reader } from "./primitives/reader.ts";
import { Sizes } from "./primitives/sizes.ts";
import { varintSize, writeVarint } from "./primitives/varints.ts";
import { lengthDelimitedType } from "./primitives/wire-type.ts";
import { LayoutReader } from "./steps/layout-reader.ts";
import { LayoutWriter } from "./steps/layout-writer.ts";
import type { OpenStep, StepCodec } from "./steps/step-codec.ts";

/** Options of generated code: unknown fields are dropped. */
export const knownFieldsOnly: Readonly<{ readUnknownFields: boolean }> = {
  readUnknownFields: false,
};

/** A payload as generated code represents a oneof. */
interface Payload {
  readonly case: string | undefined;
  readonly value?: unknown;
}

interface ColdField {
  readonly name: string;
  readonly number: number;
  readonly schema: DescMessage;
}

interface Payloads {
  /** The payloads other than steps. */
  readonly byName: ReadonlyMap<string, ColdField>;
  readonly byNumber: ReadonlyMap<number, ColdField>;
  readonly step: number;
}

/**
 * Creates a codec of EnvironmentRequest or EnvironmentResponse. The codec reads and writes steps with its own
 * code, and every other payload with the generated code. For both, it merges a payload that is split into
 * several parts; of two payloads of different kinds, the last one wins, as in protobuf.
 */
export function createEnvelopeCodec<S, T extends Payload>(
  envelope: DescMessage,
  stepCodec: StepCodec<S>,
  options: CodecOptions,
): MessageCodec<T> {
  const { byName, byNumber, step } = payloadsOf(envelope);
  const readOptions = readOptionsOf(options);
  const reader = new Reader(readOptions);
  const scanner = new MessageScanner(reader, readOptions);
  const borrowsScalars = options.borrowScalars === true && readOptions.maxElements > 0;
  const layoutReader = new LayoutReader(stepCodec, borrowsScalars);
  const layoutWriter = new LayoutWriter(stepCodec);
  const sizes = new Sizes();
  let cold: Uint8Array = new Uint8Array(0);

  function payloadSize(message: T): number {
    if (message.case === "step") {
      return stepCodec.size(message.value as S, sizes);
    }
    const field = byName.get(message.case as string);
    if (field === undefined) {
      throw unknownPayload(envelope, message.case as string);
    }
    cold = encode(field.schema, message.value as Message);
    return cold.length;
  }

  function size(message: T): number {
    if (message.case === "step") {
      const known = layoutWriter.size(message.value as S);
      if (known >= 0) {
        return known;
      }
    }
    sizes.clear();
    if (message.case === undefined) {
      return 0;
    }
    const place = sizes.reserve();
    const bytes = sizes.put(place, payloadSize(message));
    const number = message.case === "step" ? step : (byName.get(message.case)?.number ?? 0);
    return varintSize((number << 3) | lengthDelimitedType) + varintSize(bytes) + bytes;
  }

  function write(message: T, target: Uint8Array, offset: number): number {
    if (message.case === undefined) {
      return offset;
    }
    if (message.case === "step") {
      const end = layoutWriter.write(message.value as S, target, offset);
      if (end >= 0) {
        return end;
      }
    }
    const bytes = sizes.take();
    const number = message.case === "step" ? step : (byName.get(message.case)?.number ?? 0);
    const pos = writeVarint((number << 3) | lengthDelimitedType, target, offset);
    const at = writeVarint(bytes, target, pos);
    if (message.case === "step") {
      const end = stepCodec.write(message.value as S, sizes, target, at);
      layoutWriter.learn(message.value as S, target, offset, at, end);
      return end;
    }
    target.set(cold, at);
    return at + bytes;
  }

  function readPayload(start: number, end: number): T {
    const known = layoutReader.read(reader, readOptions);
    if (known !== undefined) {
      return { case: "step", value: known } as unknown as T;
    }
    reader.notes.clear();
    scanner.clear();
    let name: string | undefined;
    let openStep: OpenStep<S> | undefined;
    let value: Message | undefined;
    while (reader.pos < end) {
      const tag = reader.tag();
      const number = tag >>> 3;
      const field = number === step ? undefined : byNumber.get(number);
      if ((tag & 7) !== lengthDelimitedType || (number !== step && field === undefined)) {
        reader.skip(tag);
        continue;
      }
      const stop = reader.delimited();
      reader.spend(objectWork);
      if (field === undefined) {
        openStep ??= stepCodec.open();
        value = undefined;
        name = "step";
        reader.end = stop;
        openStep.read(reader, readOptions);
        reader.end = end;
      } else {
        const bytes = reader.source.subarray(reader.pos, stop);
        openStep = undefined;
        reader.notes.regular = false;
        reader.end = stop;
        scanner.scan(field.schema);
        reader.end = end;
        value =
          name === field.name && value !== undefined
            ? mergeFromBinary(field.schema, value, bytes, knownFieldsOnly)
            : fromBinary(field.schema, bytes, knownFieldsOnly);
        name = field.name;
      }
      reader.pos = stop;
    }
    if (openStep !== undefined) {
      const step = openStep.close();
      layoutReader.learn(reader, start, end, step);
      return { case: "step", value: step } as unknown as T;
    }
    return (name === undefined ? { case: undefined } : { case: name, value }) as unknown as T;
  }

  function read(source: Uint8Array, start: number, end: number): T | Malformed {
    try {
      reader.open(source, start, end);
      return readPayload(start, end);
    } catch (error) {
      return { case: "malformed", value: asTensorError(error, envelope) };
    } finally {
      reader.close();
    }
  }

  return { size, write, read };
}

/** The bytes of the payloads that `keepBytes` was called with; empty until a payload is encoded. */
const keptBytes = new WeakMap<Message, Uint8Array>();
const notEncoded: Uint8Array = new Uint8Array(0);

/**
 * Lets codecs encode a payload only once, for a payload that is sent many times. It must not be changed afterwards. Steps
 * are still encoded each time.
 *
 * @returns The payload.
 */
export function keepBytes<T extends Message>(payload: T): T {
  keptBytes.set(payload, notEncoded);
  return payload;
}

function encode(schema: DescMessage, payload: Message): Uint8Array {
  const kept = keptBytes.get(payload);
  if (kept === undefined) {
    return toBinary(schema, payload);
  }
  if (kept !== notEncoded) {
    return kept;
  }
  const bytes = toBinary(schema, payload);
  keptBytes.set(payload, bytes);
  return bytes;
}

/** Returns the payloads of EnvironmentRequest or EnvironmentResponse; `step` is the number of the step. */
export function payloadsOf(envelope: DescMessage): Payloads {
  const byName = new Map<string, ColdField>();
  const byNumber = new Map<number, ColdField>();
  let step = 0;
  for (const { localName, number, message } of envelope.fields) {
    if (message === undefined) {
      continue;
    }
    if (localName === "step") {
      step = number;
    } else {
      const field = { name: localName, number, schema: message };
      byName.set(localName, field);
      byNumber.set(number, field);
    }
  }
  return { byName, byNumber, step };
}

/** Returns the error of a message that cannot be decoded. */
export function asTensorError(error: unknown, envelope: DescMessage): Error {
  if (error instanceof TensorError) {
    return error;
  }
  return new TensorError(
    {
      reason: "malformed",
      expected: `a message ${envelope.typeName}`,
      received: `bytes that do not decode (${error instanceof Error ? error.message : String(error)})`,
    },
    { cause: error },
  );
}

function unknownPayload(envelope: DescMessage, name: string): TensorError {
  return new TensorError({
    reason: "malformed",
    expected: `a payload of ${envelope.typeName}`,
    received: `"${name}"`,
  });
}
