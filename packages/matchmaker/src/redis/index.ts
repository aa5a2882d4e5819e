// SPDX-License-Identifier: Apache-2.0
/** The state of matchmakers in Redis, so that several matchmakers can share it. Needs the package `redis`. */
export { type RedisStoreOptions, redisStore } from "./redis-store.ts";
