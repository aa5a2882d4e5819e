// SPDX-License-Identifier: Apache-2.0
import type { Connection } from "../environment/environment.ts";
import { software } from "../properties/software.ts";
import { entryCodec } from "./format.ts";

/** Takes the bytes of a recording, in order. A writable stream is one; what it buffers is its own. */
export interface RecordingSink {
  /** Takes the next bytes, which are its own to keep. */
  write(bytes: Uint8Array): unknown;
}

/** How to record. */
export interface RecordOptions {
  /** Names and versions to keep with the recording, beside this client's: of the agent, the server, the world. */
  readonly versions?: Readonly<Record<string, string>> | undefined;
  /** Microseconds since 1970. Default: the machine's time. */
  readonly nowUs?: (() => number) | undefined;
}

/**
 * Writes every request and response of a connection from now on, with its time, as
 * length-delimited protobuf. Returns what ends the recording.
 *
 * Record from before a world is created or joined: a replay needs the beginning.
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
