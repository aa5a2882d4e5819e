// SPDX-License-Identifier: Apache-2.0
/** Processes for tests and measurements to start and kill: programs, a Redis, and a server of raw messages. */
export { freePort } from "./free-port.ts";
export { type Outcome, Program, run, type ServingProgram } from "./program.ts";
export { framed, type RawAnswer, type RawServer, rawServer } from "./raw-server.ts";
export { hasRedis, RedisServer, type RedisServerOptions, sayWhetherRedis } from "./redis-server.ts";
