// SPDX-License-Identifier: Apache-2.0

/** Share of the free room that one caller may use, unless it needs more to reach its own limit while it is alone. */
const leastShare = 1 / 4;

/**
 * Returns how much of a room one caller may use: up to its own limit, but less while little is free, so that a few callers
 * cannot use up the room. A caller that is alone can reach its own limit.
 *
 * @param perCaller The caller's own limit.
 * @param total Size of the room.
 * @param free Part of the room that is unused.
 */
export function fairShare(perCaller: number, total: number, free: number): number {
  if (perCaller >= total) {
    return perCaller;
  }
  const share = Math.max(leastShare, perCaller / (total - perCaller));
  return Math.min(perCaller, Math.ceil(share * free));
}
