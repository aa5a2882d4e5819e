// SPDX-License-Identifier: Apache-2.0
import { closeSync, openSync, writeSync } from "node:fs";
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

/** A file that a recording is written to. */
export interface FileSink extends RecordingSink, Disposable {
  /** Writes what is buffered and closes the file. Idempotent. */
  close(): void;
}

const bufferBytes = 256 * 1024;

/**
 * Opens a file to record to, and replaces what it was. Writes synchronously, 256 KiB at a time: nothing piles
 * up, and at most that much is lost with the process.
 *
 * @throws what `fs.openSync` throws.
 */
export function fileSink(path: string): FileSink {
  const file = openSync(path, "w");
  const buffer = new Uint8Array(bufferBytes);
  let length = 0;
  let open = true;
  const flush = (): void => {
    writeAll(file, buffer.subarray(0, length));
    length = 0;
  };
  const close = (): void => {
    if (!open) {
      return;
    }
    open = false;
    try {
      flush();
    } finally {
      closeSync(file);
    }
  };
  return {
    write: (bytes) => {
      if (!open) {
        return;
      }
      if (length + bytes.length > buffer.length) {
        flush();
      }
      if (bytes.length > buffer.length) {
        writeAll(file, bytes);
      } else {
        buffer.set(bytes, length);
        length += bytes.length;
      }
    },
    close,
    [Symbol.dispose]: close,
  };
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) {
    at += writeSync(file, bytes, at);
  }
}
