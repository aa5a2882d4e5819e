// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import type { RecordingEntry } from "./format.ts";
import { type RecordedFrame, type RecordingBytes, readEntries, readFrames } from "./read.ts";

/** Source of a recording: a file's path, its bytes, or chunks of them. */
export type RecordingSource = string | RecordingBytes;

/**
 * Reads the entries of a recording, one by one.
 *
 * @throws DmEnvRpcError DATA_LOSS if the file is damaged, or ends within an entry; the earlier
 *   entries were already yielded.
 */
export function readRecording(source: RecordingSource): AsyncGenerator<RecordingEntry, void, void> {
  return readEntries(bytesOf(source));
}

/**
 * Yields the recorded values of one observation, such as video frames: one value for each step that
 * requested it.
 */
export function recordedFrames(
  source: RecordingSource,
  name: string,
): AsyncGenerator<RecordedFrame, void, void> {
  return readFrames(bytesOf(source), name);
}

function bytesOf(source: RecordingSource): RecordingBytes {
  return typeof source === "string" ? createReadStream(source) : source;
}
