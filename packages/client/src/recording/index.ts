// SPDX-License-Identifier: Apache-2.0
/** Recordings of a connection's messages, and replays of them. */
export { encodePng } from "@dm-env-rpc/transport/internal/png";
export type { ResponseDifference } from "./compare.ts";
export { type FileSink, fileSink } from "./file-sink.ts";
export type { RecordingEntry, RecordingHeader } from "./format.ts";
export type { RecordedFrame, RecordingBytes } from "./read.ts";
export { type RecordingSource, readRecording, recordedFrames } from "./read-file.ts";
export { type RecordingSink, type RecordOptions, record } from "./record.ts";
export { type ReplayDifference, type ReplayOptions, type ReplayResult, replay } from "./replay.ts";
