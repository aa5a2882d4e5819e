// SPDX-License-Identifier: Apache-2.0
/** Allocates the GameServers of Agones before worlds are created on them. */
export { type AgonesAllocatorOptions, agonesAllocator, gameServerLabel } from "./allocator.ts";
