// SPDX-License-Identifier: Apache-2.0
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import {
  createRequestCodec,
  createResponseCodec,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";

/** Origin of a recording. */
export interface RecordingHeader {
  /** Name of the server. */
  readonly peer: string;
  /** Names and versions of the client and, as far as the caller gave them, of other software (behaviour 59). */
  readonly versions: Readonly<Record<string, string>>;
}

/** One entry of a recording; the first is a header. Times are microseconds since 1970. */
export type RecordingEntry =
  | { readonly case: "header"; readonly timeUs: number; readonly value: RecordingHeader }
  | { readonly case: "request"; readonly timeUs: number; readonly value: ProcessRequest }
  | { readonly case: "response"; readonly timeUs: number; readonly value: ProcessResponse };

/*
 * A recording is a file of length-delimited messages, which any protobuf implementation can read as
 *
 *   message Entry {
 *     uint64 time_us = 1;
 *     oneof entry {
 *       dm_env_rpc.v1.EnvironmentRequest request = 2;
 *       dm_env_rpc.v1.EnvironmentResponse response = 3;
 *       Header header = 4;
 *     }
 *   }
 *   message Header { string peer = 1; map<string, string> versions = 2; }
 */
const timeField = 1;
const requestField = 2;
const responseField = 3;
const headerField = 4;

/** No limit, because the limits were already applied when the messages were received. */
const noBudget = { maxMessageWork: Number.POSITIVE_INFINITY };

/** Converts entries to bytes and back. */
export interface EntryCodec {
  /** Encodes an entry, prefixed with its length. */
  encode(entry: RecordingEntry): Uint8Array;
  /** @throws DmEnvRpcError DATA_LOSS for bytes that are not an entry. */
  decode(bytes: Uint8Array): RecordingEntry;
}

/** Creates the codec of entries. */
export function entryCodec(): EntryCodec {
  const requests = createRequestCodec(noBudget);
  const responses = createResponseCodec(noBudget);
  const bytesOf = <T>(codec: typeof requests | typeof responses, message: T): Uint8Array => {
    const sized = codec as { size(m: T): number; write(m: T, to: Uint8Array, at: number): number };
    const bytes = new Uint8Array(sized.size(message));
    sized.write(message, bytes, 0);
    return bytes;
  };
  return {
    encode(entry) {
      const writer = new BinaryWriter().fork();
      writer.tag(timeField, WireType.Varint).uint64(entry.timeUs);
      if (entry.case === "request") {
        writer.tag(requestField, WireType.LengthDelimited).bytes(bytesOf(requests, entry.value));
      } else if (entry.case === "response") {
        writer.tag(responseField, WireType.LengthDelimited).bytes(bytesOf(responses, entry.value));
      } else {
        writer.tag(headerField, WireType.LengthDelimited).fork();
        writer.tag(1, WireType.LengthDelimited).string(entry.value.peer);
        for (const [name, version] of Object.entries(entry.value.versions)) {
          writer.tag(2, WireType.LengthDelimited).fork();
          writer.tag(1, WireType.LengthDelimited).string(name);
          writer.tag(2, WireType.LengthDelimited).string(version);
          writer.join();
        }
        writer.join();
      }
      return writer.join().finish();
    },
    decode(bytes) {
      const reader = new BinaryReader(bytes);
      let timeUs = 0;
      let found: RecordingEntry | undefined;
      while (reader.pos < reader.len) {
        const [field, wireType] = reader.tag();
        if (field === timeField) {
          timeUs = Number(reader.uint64());
        } else if (field === requestField) {
          const part = reader.bytes();
          const value = requests.read(part, 0, part.length);
          if (value.case === "malformed") {
            throw notRecorded(value.value);
          }
          found = { case: "request", timeUs, value };
        } else if (field === responseField) {
          const part = reader.bytes();
          const value = responses.read(part, 0, part.length);
          if (value.case === "malformed") {
            throw notRecorded(value.value);
          }
          found = { case: "response", timeUs, value };
        } else if (field === headerField) {
          found = { case: "header", timeUs, value: readHeader(reader.bytes()) };
        } else {
          reader.skip(wireType, field);
        }
      }
      if (found === undefined) {
        throw notRecorded(new Error("an entry without a message"));
      }
      return { ...found, timeUs };
    },
  };
}

function readHeader(bytes: Uint8Array): RecordingHeader {
  const reader = new BinaryReader(bytes);
  let peer = "";
  const versions = new Map<string, string>();
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1) {
      peer = reader.string();
    } else if (field === 2) {
      const pair = new BinaryReader(reader.bytes());
      const strings = new Map<number, string>();
      while (pair.pos < pair.len) {
        const [key] = pair.tag();
        strings.set(key, pair.string());
      }
      versions.set(strings.get(1) ?? "", strings.get(2) ?? "");
    } else {
      reader.skip(wireType, field);
    }
  }
  return { peer, versions: Object.fromEntries(versions) };
}

/** Creates the error of a recording that cannot be read. */
export function notRecorded(cause: Error): DmEnvRpcError {
  return new DmEnvRpcError(
    "DATA_LOSS",
    `expected an entry of a recording, received ${cause.message}; the file is damaged or not a recording`,
    { origin: "client", cause },
  );
}
