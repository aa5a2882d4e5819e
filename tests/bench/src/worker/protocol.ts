// SPDX-License-Identifier: Apache-2.0

/** What a worker can be told, one JSON text a line on its stdin; each is answered by one line on stdout. */
export interface Commands {
  /** Serves a load. */
  serve: { ask: { peer: string; load: string }; answer: { port: number } };
  /** Opens connections that step, kept under a name. */
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
  /** What the process has used so far. */
  usage: { ask: { collect?: boolean }; answer: Usage };
  /** Versions of what it runs on. */
  versions: { ask: Record<never, never>; answer: { versions: Record<string, string> } };
}

/** What came of playing. */
export interface PlayResult {
  readonly steps: number;
  readonly elapsedMs: number;
  /** Of the whole process. */
  readonly cpuMs: number;
  /** Of it, the time in which garbage collection stopped everything; null where nobody counts it. */
  readonly gcMs: number | null;
  /** Microseconds; of one step, where they were measured. */
  readonly p50Micros: number | null;
  readonly p99Micros: number | null;
}

/** What a process has used. */
export interface Usage {
  readonly cpuMs: number;
  readonly gcMs: number | null;
  readonly rssBytes: number;
}
