// SPDX-License-Identifier: Apache-2.0
import { EnvironmentResponseSchema, type EnvironmentStateType } from "@dm-env-rpc/protocol";
import { defaultMaxResponseWork } from "../errors/limits.ts";
import { createEnvelopeCodec } from "./envelope.ts";
import type { MessageCodec, ProcessResponse } from "./messages.ts";
import type { CodecOptions, ReadOptions } from "./primitives/read-options.ts";
import type { Reader } from "./primitives/reader.ts";
import { int32Size, writeInt32 } from "./primitives/varints.ts";
import { lengthDelimitedType, varintType } from "./primitives/wire-type.ts";
import type { StepResponse } from "./steps/step.ts";
import type { OpenStep, StepCodec } from "./steps/step-codec.ts";
import { UidTensors } from "./steps/step-reader.ts";
import { mapSize, writeMap } from "./steps/step-writer.ts";

const stateTag = (1 << 3) | varintType;
const noUids: readonly never[] = Object.freeze([]);
const observationsTag = (2 << 3) | lengthDelimitedType;

/**
 * Creates the codec of the messages that servers send: EnvironmentResponse.
 *
 * Any number of streams may share a codec; it reads or writes one message at a time.
 */
export function createResponseCodec(options: CodecOptions = {}): MessageCodec<ProcessResponse> {
  return createEnvelopeCodec(EnvironmentResponseSchema, stepResponseCodec, {
    ...options,
    maxMessageWork: options.maxMessageWork ?? defaultMaxResponseWork,
  });
}

/** Reads and writes a StepResponse. */
export const stepResponseCodec: StepCodec<StepResponse> = {
  size({ state, observations }, sizes) {
    return (state === 0 ? 0 : 1 + int32Size(state)) + mapSize(observations, sizes);
  },

  write({ state, observations }, sizes, target, pos) {
    if (state !== 0) {
      target[pos] = stateTag;
      pos = writeInt32(state, target, pos + 1);
    }
    return writeMap(observations, observationsTag, sizes, target, pos);
  },

  open: () => new OpenStepResponse(),
  entriesOf: ({ observations }) => observations,
  stateOf: ({ state }) => state,
  requestedOf: () => noUids,
  make: (observations, state) => ({ state: state as EnvironmentStateType, observations }),
};

class OpenStepResponse implements OpenStep<StepResponse> {
  #state: EnvironmentStateType = 0;
  readonly #observations = new UidTensors();

  read(reader: Reader, options: ReadOptions): void {
    const { end } = reader;
    while (reader.pos < end) {
      const tag = reader.tag();
      if (tag === stateTag) {
        reader.spend(1);
        this.#readState(reader);
      } else if (tag === observationsTag) {
        const stop = reader.delimited();
        reader.end = stop;
        this.#observations.read(reader, options);
        reader.pos = stop;
        reader.end = end;
      } else {
        reader.skip(tag);
      }
    }
  }

  #readState(reader: Reader): void {
    const { notes, pos } = reader;
    this.#state = reader.int32() as EnvironmentStateType;
    if (notes.stateAt >= 0) {
      notes.regular = false;
    } else if (reader.pos === pos + 1) {
      notes.stateAt = pos;
    }
  }

  close(): StepResponse {
    return { state: this.#state, observations: this.#observations.entries };
  }
}
