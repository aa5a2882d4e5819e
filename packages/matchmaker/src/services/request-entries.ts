// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ContextValues,
  createContextValues,
} from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { RegistryService, WorldReportSchema } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { toError } from "@dm-env-rpc/transport/internal";
import { toConnectError } from "../errors.ts";
import type { MatchmakerSettings } from "../settings.ts";

/** Maximum size of a server's request, which fits a report of ten thousand worlds. */
export const maxReportBytes: number = 4 * 1024 * 1024;

/** Entries of a request besides its worlds. A server may have 1,000 world types, and thousands of tickets in one world. */
const spareEntries = 65_536;
/** Entries for each world that a server may have: the fields of its report, and its tickets. */
const entriesPerWorld = 32;

/** Bytes before each message in gRPC: flags, and the length. */
const prefixBytes = 5;

/** The fields of a message by number: the fields of a nested message, or the encoding of a scalar. */
type Shape = ReadonlyMap<number, Shape | WireType>;

const worldShape = shapeOf(WorldReportSchema);

/**
 * Limits the entries of the requests to the registry before they are decoded. Two bytes of a request can become an
 * object of a hundred bytes, so a limit on its size is not enough.
 *
 * @param note Called with each refusal.
 */
export function limitEntries(
  { handlers }: ConnectRouter,
  settings: MatchmakerSettings,
  note: (refusal: ConnectError, method: string, values: ContextValues) => void,
): void {
  for (const [index, handler] of handlers.entries()) {
    const { service, method } = handler;
    if (service.typeName !== RegistryService.typeName) {
      continue;
    }
    const shape = shapeOf(method.input);
    const limited: typeof handler = Object.assign((request: UniversalServerRequest) => {
      const contextValues = request.contextValues ?? createContextValues();
      const { body } = request;
      if (typeof body !== "object" || body === null || !(Symbol.asyncIterator in body)) {
        return handler(request);
      }
      const check = (bytes: Uint8Array): void => {
        try {
          checkEntries(bytes, request.header.get("content-type") ?? "", shape, settings);
        } catch (error) {
          const refusal = toConnectError(error);
          note(refusal, method.name, contextValues);
          throw refusal;
        }
      };
      return handler({ ...request, contextValues, body: checked(body, check) });
    }, handler);
    handlers[index] = limited;
  }
}

/** Returns the bytes of a request once all of them have been checked. Connect reads them once the caller is accepted. */
async function* checked(
  body: AsyncIterable<Uint8Array>,
  check: (bytes: Uint8Array) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > prefixBytes + maxReportBytes) {
      throw new ConnectError(
        `the request is larger than its limit: expected at most ${maxReportBytes} bytes, received more; run more servers with fewer worlds each`,
        Code.ResourceExhausted,
      );
    }
    chunks.push(chunk);
  }
  const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  check(bytes);
  yield bytes;
}

/** @throws DmEnvRpcError RESOURCE_EXHAUSTED or INVALID_ARGUMENT. */
function checkEntries(
  bytes: Uint8Array,
  contentType: string,
  shape: Shape,
  settings: MatchmakerSettings,
): void {
  const counter = new EntryCounter(settings);
  if (contentType.includes("json")) {
    counter.countJson(bytes);
    return;
  }
  const messages = contentType.startsWith("application/grpc") ? messagesIn(bytes) : [bytes];
  for (const message of messages) {
    counter.count(message, shape);
  }
}

/** Creates the error for a report of too many worlds. */
export function tooManyWorlds({ maxWorldsPerServer }: MatchmakerSettings): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `too many worlds: expected at most ${maxWorldsPerServer} of one server, received more; run more servers with fewer worlds each (limit: maxWorldsPerServer)`,
  );
}

/** Returns the messages of a body in gRPC. The last one may be incomplete. */
function messagesIn(body: Uint8Array): Uint8Array[] {
  const messages: Uint8Array[] = [];
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  for (let at = 0; at + prefixBytes <= body.length; ) {
    const start = at + prefixBytes;
    at = start + view.getUint32(at + 1);
    messages.push(body.subarray(start, at));
  }
  return messages;
}

/** Counts the entries of a request. */
class EntryCounter {
  readonly #settings: MatchmakerSettings;
  readonly #most: number;
  #entries = 0;
  #worlds = 0;

  constructor(settings: MatchmakerSettings) {
    this.#settings = settings;
    this.#most = spareEntries + entriesPerWorld * settings.maxWorldsPerServer;
  }

  /** Counts the entries of a message in protobuf. Reads the same bytes as fields as protobuf's decoder does. */
  count(bytes: Uint8Array, shape: Shape): void {
    try {
      this.#count(new BinaryReader(bytes), bytes.length, shape);
    } catch (error) {
      if (isDmEnvRpcError(error)) {
        throw error;
      }
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `expected a request in protobuf, received bytes that cannot be decoded: ${toError(error).message}`,
      );
    }
  }

  /** Counts the values of a text in JSON: each begins the text, or follows one of three characters. */
  countJson(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (byte === comma || byte === brace || byte === bracket) {
        this.#add();
      }
    }
  }

  #count(reader: BinaryReader, end: number, shape: Shape): void {
    while (reader.pos < end) {
      this.#add();
      const [number, wireType] = reader.tag();
      const field = shape.get(number);
      if (typeof field !== "object") {
        // The decoder ignores the wire type of a field that it knows.
        reader.skip(field ?? wireType, number);
        continue;
      }
      if (field === worldShape) {
        this.#worlds += 1;
        if (this.#worlds > this.#settings.maxWorldsPerServer) {
          throw tooManyWorlds(this.#settings);
        }
      }
      const length = reader.uint32();
      this.#count(reader, reader.pos + length, field);
    }
  }

  #add(): void {
    this.#entries += 1;
    if (this.#entries > this.#most) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many entries in a request: expected at most ${this.#most}, received more; run more servers with fewer worlds and agents each (limit: maxWorldsPerServer)`,
      );
    }
  }
}

const [comma, brace, bracket] = [...Buffer.from(",{[")];

function shapeOf({ fields }: DescMessage): Shape {
  return new Map(
    fields.map((field): [number, Shape | WireType] => {
      const { number, message } = field;
      if (field.fieldKind === "map") {
        const entry: Shape = new Map([
          [1, wireTypeOf(field.mapKey)],
          [2, wireTypeOf(field.scalar)],
        ]);
        return [number, entry];
      }
      if (message !== undefined) {
        return [number, message === WorldReportSchema ? worldShape : shapeOf(message)];
      }
      return [number, wireTypeOf(field.scalar)];
    }),
  );
}

/** Returns the encoding of a scalar; that of an enum if the type is undefined. */
function wireTypeOf(type: ScalarType | undefined): WireType {
  switch (type) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return WireType.LengthDelimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WireType.Bit32;
    default:
      return WireType.Varint;
  }
}
