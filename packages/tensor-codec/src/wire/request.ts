// SPDX-License-Identifier: Apache-2.0
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { tooManyEntries } from "../errors/limits.ts";
import { createEnvelopeCodec } from "./envelope.ts";
import type { MessageCodec, ProcessRequest } from "./messages.ts";
import { begin, delimitedSize } from "./primitives/delimited.ts";
import type { CodecOptions, ReadOptions } from "./primitives/read-options.ts";
import type { Reader } from "./primitives/reader.ts";
import type { Uid } from "./primitives/uid.ts";
import { lengthDelimitedType, varintType } from "./primitives/wire-type.ts";
import type { StepRequest } from "./steps/step.ts";
import type { OpenStep, StepCodec } from "./steps/step-codec.ts";
import { readUid, UidTensors } from "./steps/step-reader.ts";
import { mapSize, uidsSize, writeMap, writeUid } from "./steps/step-writer.ts";

const actionsTag = (1 << 3) | lengthDelimitedType;
const requestedTag = (2 << 3) | lengthDelimitedType;
const requestedUnpackedTag = (2 << 3) | varintType;

/**
 * Creates the codec of the messages that agents send: EnvironmentRequest.
 *
 * Any number of streams may share a codec; it reads or writes one message at a time.
 */
export function createRequestCodec(options: CodecOptions = {}): MessageCodec<ProcessRequest> {
  return createEnvelopeCodec(EnvironmentRequestSchema, stepRequestCodec, options);
}

const stepRequestCodec: StepCodec<StepRequest> = {
  size({ actions, requestedObservations }, sizes) {
    const actionBytes = mapSize(actions, sizes);
    if (requestedObservations.length === 0) {
      return actionBytes;
    }
    return actionBytes + delimitedSize(sizes.record(uidsSize(requestedObservations)));
  },

  write({ actions, requestedObservations }, sizes, target, pos) {
    pos = writeMap(actions, actionsTag, sizes, target, pos);
    if (requestedObservations.length === 0) {
      return pos;
    }
    pos = begin(requestedTag, sizes.take(), target, pos);
    for (let i = 0; i < requestedObservations.length; i++) {
      pos = writeUid(requestedObservations[i] as Uid, target, pos);
    }
    return pos;
  },

  open: () => new OpenStepRequest(),
  entriesOf: ({ actions }) => actions,
  stateOf: () => 0,
  requestedOf: ({ requestedObservations }) => requestedObservations,
  make: (actions, _state, requestedObservations) => ({ actions, requestedObservations }),
};

class OpenStepRequest implements OpenStep<StepRequest> {
  readonly #actions = new UidTensors();
  readonly #requestedObservations: Uid[] = [];

  read(reader: Reader, options: ReadOptions): void {
    const { end } = reader;
    while (reader.pos < end) {
      const tag = reader.tag();
      if (tag === actionsTag) {
        const stop = reader.delimited();
        reader.end = stop;
        this.#actions.read(reader, options);
        reader.pos = stop;
        reader.end = end;
      } else if (tag === requestedTag) {
        const stop = reader.delimited();
        reader.spend(1);
        reader.end = stop;
        while (reader.pos < stop) {
          this.#request(reader, options);
        }
        reader.end = end;
      } else if (tag === requestedUnpackedTag) {
        this.#request(reader, options);
      } else {
        reader.skip(tag);
      }
    }
  }

  #request(reader: Reader, { maxEntries }: ReadOptions): void {
    reader.spend(1);
    if (this.#requestedObservations.length === maxEntries) {
      throw tooManyEntries(maxEntries);
    }
    this.#requestedObservations.push(readUid(reader));
  }

  close(): StepRequest {
    return {
      actions: this.#actions.entries,
      requestedObservations: this.#requestedObservations,
    };
  }
}
