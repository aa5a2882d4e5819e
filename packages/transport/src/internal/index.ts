// SPDX-License-Identifier: Apache-2.0
/**
 * Modules that the packages of this repository share. Internal: not covered by semantic versioning,
 * and free of `node:` imports so that they run in a browser.
 */

export { fromCallError, fromConnectError, toConnectError } from "./connect-errors.ts";
export { Counts } from "./counts/counts.ts";
export { LineLimit } from "./counts/line-limit.ts";
export { NetworkCounts } from "./counts/network-counts.ts";
export { RefusalCounts } from "./counts/refusal-counts.ts";
export { RequestRates } from "./counts/request-rates.ts";
export { StreamCounts, type StreamLimits } from "./counts/stream-counts.ts";
export { TokenBuckets } from "./counts/token-buckets.ts";
export { type DiagnosticsChannel, diagnosticsChannel } from "./diagnostics.ts";
export { envelope, prefixBytes } from "./envelope.ts";
export { LiveSet, type Member } from "./live-set.ts";
export { shorten } from "./shorten.ts";
export { messageOf, toError } from "./thrown.ts";
export { type BackoffOptions, backoffMs } from "./time/backoff.ts";
export { type ManualTime, manualTime } from "./time/manual-time.ts";
export { pause, systemTime, type TimeSource } from "./time/time-source.ts";
export { later } from "./turns/later.ts";
export { networkOf } from "./turns/network-of.ts";
export { networkTurnKey, type TurnKey, turnKeyOf } from "./turns/network-turns.ts";
export { Queue } from "./turns/queue.ts";
export { LoopTurns, ThreadShare } from "./turns/thread-share.ts";
