// SPDX-License-Identifier: Apache-2.0
/** Programs and a Redis as processes that tests and measurements start and kill. */
export { Program } from "./program.ts";
export { hasRedis, RedisServer, sayWhetherRedis } from "./redis-server.ts";
