// SPDX-License-Identifier: Apache-2.0

/**
 * Commands of a worker, one JSON text per line on its stdin; each is answered by one line on
 * stdout.
 */
export interface Commands {
  /** Serves a load; `relay` is the address of a relay, for a peer that dials out to one. */
  serve: { ask: { peer: string; load: string; relay?: string }; answer: { port: number } };
  /** Opens connections that step, as a named group. */
  connect: {
    ask: {
      group: string;
      peer: string;
      load: string;
      port: number;
      connections: number;
      inFlight: number;
    };
    answer: Record<never, never>;
  };
  /** Plays on every connection of a group. */
  play: { ask: { group: string; inFlight: number; durationMs: number }; answer: PlayResult };
  /** Closes the connections of a group. */
  close: { ask: { group: string }; answer: Record<never, never> };
  /** Resource use of the process so far. */
  usage: { ask: { collect?: boolean }; answer: Usage };
  /** Versions of its runtime and libraries. */
  versions: { ask: Record<never, never>; answer: { versions: Record<string, string> } };
  /** Reasons why peers that need further packages cannot run here, by name; Python workers only. */
  missing: { ask: { peers: readonly string[] }; answer: { missing: Record<string, string> } };
}

/** Result of playing. */
export interface PlayResult {
  readonly steps: number;
  readonly elapsedMs: number;
  /** CPU time of the whole process. */
  readonly cpuMs: number;
  /** The part of it in which garbage collection stopped the process; null if not counted. */
  readonly gcMs: number | null;
  /** Microseconds of one step, if measured. */
  readonly p50Micros: number | null;
  readonly p99Micros: number | null;
}

/** Resource use of a process. */
export interface Usage {
  readonly cpuMs: number;
  readonly gcMs: number | null;
  readonly rssBytes: number;
}
