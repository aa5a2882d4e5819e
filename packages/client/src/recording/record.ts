// SPDX-License-Identifier: Apache-2.0
import type { Connection } from "../environment/environment.ts";
import { software } from "../properties/software.ts";
import { entryCodec } from "./format.ts";

/**
 * Destination of the bytes of a recording, such as a writable stream.
 */
export interface RecordingSink {
  /** Writes the next bytes and takes ownership of their memory. */
  write(bytes: Uint8Array): unknown;
}

/** Options of `record`. */
export interface RecordOptions {
  /** Names and versions to store in addition to this client's, such as those of the agent, server and world. */
  readonly versions?: Readonly<Record<string, string>> | undefined;
  /** Returns the time in microseconds since 1970. Default: the machine's time. */
  readonly nowUs?: (() => number) | undefined;
}

/**
 * Records every later request and response of a connection, with its time, as length-delimited
 * protobuf.
 *
 * Call it before a world is created or joined, because a replay needs these requests.
 *
 * @returns A function that ends the recording.
 *
 * @example
 * const recording = record(connection, fileSink("episode.dmenv"));
 */
export function record(
  connection: Connection,
  sink: RecordingSink,
  options: RecordOptions = {},
): () => void {
  const {
    versions = {},
    nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1_000),
  } = options;
  const codec = entryCodec();
  const value = {
    peer: connection.peer,
    versions: { [software.name]: software.version, ...versions },
  };
  sink.write(codec.encode({ case: "header", timeUs: nowUs(), value }));
  return connection.observe({
    onRequest: (request) => {
      sink.write(codec.encode({ case: "request", timeUs: nowUs(), value: request }));
    },
    onResponse: (response) => {
      sink.write(codec.encode({ case: "response", timeUs: nowUs(), value: response }));
    },
  });
}
