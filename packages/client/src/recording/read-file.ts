// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import type { RecordingEntry } from "./format.ts";
import { type RecordedFrame, type RecordingBytes, readEntries, readFrames } from "./read.ts";

/** Where a recording is: a file's path, its bytes, or chunks of them. */
export type RecordingSource = string | RecordingBytes;

/**
 * Reads the entries of a recording, one by one.
 *
 * @throws DmEnvRpcError DATA_LOSS where the file is damaged, or ends within an entry; the entries before
 * have been given then.
 */
export function readRecording(source: RecordingSource): AsyncGenerator<RecordingEntry, void, void> {
  return readEntries(bytesOf(source));
}

/** Gives an observation of a recording by its name, step by step, where it was asked for: frames of a picture, say. */
export function recordedFrames(
  source: RecordingSource,
  name: string,
): AsyncGenerator<RecordedFrame, void, void> {
  return readFrames(bytesOf(source), name);
}

function bytesOf(source: RecordingSource): RecordingBytes {
  return typeof source === "string" ? createReadStream(source) : source;
}
