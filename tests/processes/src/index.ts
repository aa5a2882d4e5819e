// SPDX-License-Identifier: Apache-2.0
/**
 * Processes for tests and measurements to start and kill, a server of raw messages, and frames and fields for bytes
 * that no client of ours sends.
 */
export { freePort } from "./free-port.ts";
export { callGhost, type Ghost } from "./ghost.ts";
export {
  emptySettings,
  frameFlags,
  frameHead,
  frameHeadBytes,
  frameTypes,
  headersOfCall,
  http2Frame,
  indexedHeader,
  literalHeader,
  preface,
  settingsFrame,
} from "./http2-frames.ts";
export { type Outcome, Program, run, type ServingProgram } from "./program.ts";
export { field, grpcFrame, incompleteFrame, integerField, varint } from "./protobuf-fields.ts";
export { framed, type RawAnswer, type RawServer, rawServer } from "./raw-server.ts";
export { hasRedis, RedisServer, type RedisServerOptions, sayWhetherRedis } from "./redis-server.ts";
export { callUntilEnded, type RefusedCalls } from "./refused-calls.ts";
