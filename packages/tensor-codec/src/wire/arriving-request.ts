// SPDX-License-Identifier: Apache-2.0
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { asTensorError, payloadsOf } from "./envelope.ts";
import type { ArrivingMessage, Malformed, MessageCodec, ProcessRequest } from "./messages.ts";
import { type CodecOptions, type ReadOptions, readOptionsOf } from "./primitives/read-options.ts";
import { objectWork, Reader } from "./primitives/reader.ts";
import { lengthDelimitedType } from "./primitives/wire-type.ts";
import { createRequestCodec } from "./request.ts";
import { fieldsOf } from "./scan/message-fields.ts";
import { stepRequest } from "./scan/step-fields.ts";
import { type Rules, Walk } from "./scan/walk.ts";

const { byNumber, step } = payloadsOf(EnvironmentRequestSchema);

/**
 * Creates the codec of `createRequestCodec` for a server whose clients are not trusted: it also checks requests while they
 * arrive (`MessageCodec.arriving`).
 */
export function createArrivingRequestCodec(
  options: CodecOptions = {},
): MessageCodec<ProcessRequest> {
  const readOptions = readOptionsOf(options);
  return {
    ...createRequestCodec(options),
    arriving: (size) => new ArrivingRequest(size, readOptions),
  };
}

/** An EnvironmentRequest that arrives in chunks, whose work is counted meanwhile. */
class ArrivingRequest implements ArrivingMessage {
  readonly #walk: Walk;

  /** @param size Size of the request in bytes. */
  constructor(size: number, options: ReadOptions) {
    this.#walk = new Walk(new Reader(options), options);
    this.#walk.open(new Envelope(), size);
  }

  add(source: Uint8Array, start: number, end: number): Malformed | undefined {
    try {
      this.#walk.add(source, start, end);
      return undefined;
    } catch (error) {
      return { case: "malformed", value: asTensorError(error, EnvironmentRequestSchema) };
    }
  }
}

/** The fields of an EnvironmentRequest. */
class Envelope implements Rules {
  /** True if the last payload was a step, which a further step is merged with. */
  #isStep = false;

  read(walk: Walk): void {
    const { reader } = walk;
    const tag = reader.tag();
    const number = tag >>> 3;
    const field = number === step ? undefined : byNumber.get(number);
    if ((tag & 7) !== lengthDelimitedType || (number !== step && field === undefined)) {
      walk.skip(tag);
      return;
    }
    const stop = reader.delimited();
    reader.spend(objectWork);
    if (field !== undefined) {
      this.#isStep = false;
      walk.enter(fieldsOf(field.schema), stop);
      return;
    }
    if (!this.#isStep) {
      this.#isStep = true;
      walk.actions = 0;
      walk.requested = 0;
    }
    walk.enter(stepRequest, stop);
  }
}
