// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import {
  type ConnectError,
  type ConnectRouter,
  type ContextValues,
  createContextValues,
} from "@connectrpc/connect";
import type { UniversalServerRequest } from "@connectrpc/connect/protocol";
import { RegistryService, WorldReportSchema } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { prefixBytes, toError } from "@dm-env-rpc/transport/internal";
import { toConnectError } from "../../errors/errors.ts";
import type { MatchmakerSettings } from "../../model/settings.ts";

/** Maximum size of a server's request, which fits a report of ten thousand worlds. */
export const maxReportBytes: number = 4 * 1024 * 1024;

/** Entries of a request besides its worlds. A server may have 1,000 world types, and thousands of tickets in one world. */
const spareEntries = 65_536;
/** Entries for each world that a server may have: the fields of its report, and its tickets. */
const entriesPerWorld = 32;

/** The fields of a message by number: the fields of a nested message, or the encoding of a scalar. */
type Shape = ReadonlyMap<number, Shape | WireType>;

const worldShape = shapeOf(WorldReportSchema);

/**
 * Limits the size and the entries of the requests to the registry before they are decoded. Two bytes of a request can
 * become an object of a hundred bytes, so a limit on its size is not enough.
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
      const refuse = (error: unknown): ConnectError => {
        const refusal = toConnectError(error);
        note(refusal, method.name, contextValues);
        return refusal;
      };
      const format = formatOf(request.header.get("content-type") ?? "");
      const checked = checkedBody(body, new ReadRequest(format, shape, settings), refuse);
      return handler({ ...request, contextValues, body: checked });
    }, handler);
    handlers[index] = limited;
  }
}

/** Returns the bytes of a request once all of them have been checked. Connect reads them once the caller is accepted. */
async function* checkedBody(
  body: AsyncIterable<Uint8Array>,
  request: ReadRequest,
  refuse: (error: unknown) => ConnectError,
): AsyncGenerator<Uint8Array, void, undefined> {
  const checked = <T>(check: () => T): T => {
    try {
      return check();
    } catch (error) {
      throw refuse(error);
    }
  };
  for await (const chunk of body) {
    checked(() => request.add(chunk));
  }
  yield checked(() => request.end());
}

/** The encoding of a request. */
interface Format {
  readonly isJson: boolean;
  /** True if a prefix precedes each message, as in gRPC. */
  readonly hasPrefix: boolean;
}

function formatOf(contentType: string): Format {
  // Connect ignores the case, too.
  const type = contentType.toLowerCase();
  return { isJson: type.includes("json"), hasPrefix: type.startsWith("application/grpc") };
}

/** A request of a unary call while it is read. */
class ReadRequest {
  readonly #format: Format;
  readonly #shape: Shape;
  readonly #settings: MatchmakerSettings;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  /** The bytes before the first message, as far as they have arrived. */
  readonly #prefix = Buffer.alloc(prefixBytes);

  constructor(format: Format, shape: Shape, settings: MatchmakerSettings) {
    this.#format = format;
    this.#shape = shape;
    this.#settings = settings;
  }

  /**
   * Adds the bytes that have arrived.
   *
   * @throws DmEnvRpcError RESOURCE_EXHAUSTED if the request is too large.
   * @throws DmEnvRpcError UNIMPLEMENTED if the request has more than one message.
   */
  add(chunk: Uint8Array): void {
    if (this.#size < prefixBytes) {
      this.#prefix.set(chunk.subarray(0, prefixBytes - this.#size), this.#size);
    }
    this.#size += chunk.length;
    if (this.#size > prefixBytes + maxReportBytes) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `the request is larger than its limit: expected at most ${maxReportBytes} bytes, received more; run more servers with fewer worlds each`,
      );
    }
    // Connect makes an object of each message before it refuses the second one.
    if (this.#format.hasPrefix && this.#size > prefixBytes + this.#prefix.readUInt32BE(1)) {
      throw new DmEnvRpcError(
        "UNIMPLEMENTED",
        "the request has too many messages: expected one message, received more; make one call for each message",
      );
    }
    this.#chunks.push(chunk);
  }

  /**
   * Returns the request once its entries have been counted.
   *
   * @throws DmEnvRpcError RESOURCE_EXHAUSTED or INVALID_ARGUMENT.
   */
  end(): Uint8Array {
    const [first] = this.#chunks;
    const bytes =
      this.#chunks.length === 1 && first !== undefined ? first : Buffer.concat(this.#chunks);
    const message = this.#format.hasPrefix ? bytes.subarray(prefixBytes) : bytes;
    const counter = new EntryCounter(this.#settings);
    if (this.#format.isJson) {
      counter.countJson(message);
    } else {
      counter.count(message, this.#shape);
    }
    return bytes;
  }
}

/** Creates the error for a report of too many worlds. */
export function tooManyWorlds({ maxWorldsPerServer }: MatchmakerSettings): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `too many worlds: expected at most ${maxWorldsPerServer} of one server, received more; run more servers with fewer worlds each (limit: maxWorldsPerServer)`,
  );
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
