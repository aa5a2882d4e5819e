// SPDX-License-Identifier: Apache-2.0
import { closeSync, openSync, writeSync } from "node:fs";
import type { RecordingSink } from "./record.ts";

/** A file for a recording. */
export interface FileSink extends RecordingSink, Disposable {
  /** Writes the buffered bytes and closes the file. Idempotent. */
  close(): void;
}

const bufferBytes = 256 * 1024;

/**
 * Opens a file to record to, and replaces its contents. Writes synchronously, 256 KiB at a time: at most
 * that much is buffered, and lost if the process dies.
 *
 * @throws the error of `fs.openSync`.
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
