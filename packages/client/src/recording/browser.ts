// SPDX-License-Identifier: Apache-2.0
/** Recordings in pages: the functions that work without files. */
export type { RecordingEntry, RecordingHeader } from "./format.ts";
export {
  type RecordedFrame,
  type RecordingBytes as RecordingSource,
  readEntries as readRecording,
  readFrames as recordedFrames,
} from "./read.ts";
export { type RecordingSink, type RecordOptions, record } from "./record.ts";
