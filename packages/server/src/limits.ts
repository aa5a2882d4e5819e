// SPDX-License-Identifier: Apache-2.0

/** What a server puts up with. Each limit is named in the error of whoever meets it. */
export interface ServerLimits {
  /** Worlds at a time. Default 1,000. */
  readonly maxWorlds: number;
  /** Requests of one connection that are read ahead; past it the server stops reading. Default 256. */
  readonly maxQueuedRequests: number;
  /** Milliseconds that one call of a world's code may take. Default 30,000. */
  readonly worldCallMs: number;
}

/** The limits of a server that was told nothing else. */
export const defaultLimits: ServerLimits = {
  maxWorlds: 1000,
  maxQueuedRequests: 256,
  worldCallMs: 30_000,
};
