// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { serve } from "@dm-env-rpc/server";
import { counting, zeroCounters } from "../world.ts";
import type { SessionsJob, SessionsMessage, SessionsResult } from "./play.ts";

/** Results of a soak of sessions. */
export interface SessionsSummary {
  readonly connectMs: Quantiles;
  readonly stepMs: Quantiles;
  readonly steps: number;
  /** Share of the sessions that lived to the end without an error. */
  readonly success: number;
  /** Resident memory of the server with all sessions, and before the first one. */
  readonly residentBytes: number;
  readonly residentBefore: number;
  readonly firstFailure: string | undefined;
  /** Connections and worlds that the server still has after the end. */
  readonly left: number;
}

/** The median, the 99th percentile and the largest value. */
export interface Quantiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Options of `soakSessions`. */
export interface SessionsOptions extends Pick<SessionsJob, "everyMs" | "seconds"> {
  readonly sessions: number;
  readonly sessionsPerConnection: number;
}

/** Processes that share the sessions. */
const processes = 4;

/** Connections of one process to one address: a little less than a system has ports for one peer. */
const connectionsPerAddress = 16_384;

/** Longest wait for the server's connections to close. */
const quietMs = 60_000;

/** Serves sessions, each with a world of its own, from processes that start them all at once. */
export async function soakSessions(options: SessionsOptions): Promise<SessionsSummary> {
  const { sessions, sessionsPerConnection, everyMs, seconds } = options;
  const connections = Math.ceil(sessions / sessionsPerConnection);
  const spare = 1_000;
  const done = zeroCounters();
  const isOfMany = connections > connectionsPerAddress;
  await using server = await serve({
    worlds: [counting(done)],
    ...(isOfMany ? { host: "0.0.0.0", allowInsecure: true } : {}),
    limits: {
      maxConnections: connections + spare,
      maxConnectionsPerAddress: connections + spare,
      maxStreams: 2 * sessions + spare,
      maxStreamsPerAddress: 2 * sessions + spare,
      maxWorlds: sessions + spare,
    },
  });
  const residentBefore = process.memoryUsage().rss;
  const { port } = new URL(server.url);
  const urls = Array.from(
    { length: isOfMany ? Math.ceil(connections / connectionsPerAddress) : 1 },
    (_, i) => `http://127.0.0.${i + 1}:${port}`,
  );
  const children = Array.from({ length: processes }, () =>
    fork(fileURLToPath(new URL("./play.js", import.meta.url)), { serialization: "advanced" }),
  );
  let residentBytes = 0;
  const watch = setInterval(() => {
    residentBytes = Math.max(residentBytes, process.memoryUsage().rss);
  }, 500);
  try {
    const connected = Promise.all(children.map((child) => messageOf(child, "connected")));
    const results = Promise.all(children.map((child) => messageOf(child, "result")));
    results.catch(() => {}); // `connected` rejects as well.
    for (const child of children) {
      const job = {
        urls,
        sessions: sessions / processes,
        sessionsPerConnection,
        everyMs,
        seconds,
      };
      child.send({ kind: "start", job } satisfies SessionsMessage);
    }
    await connected;
    for (const child of children) {
      child.send({ kind: "step" } satisfies SessionsMessage);
    }
    const all = (await results).map(({ result }) => result);
    const end = performance.now() + quietMs;
    while (server.sessionCount > 0 && performance.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return {
      ...merged(all, sessions),
      residentBytes,
      residentBefore,
      left: server.sessionCount + done.created - done.destroyed,
    };
  } finally {
    clearInterval(watch);
    for (const child of children) {
      child.kill("SIGKILL");
    }
  }
}

function merged(results: readonly SessionsResult[], sessions: number) {
  const stepMs = quantiles(results.map((result) => result.stepMs));
  return {
    connectMs: quantiles(results.map((result) => result.connectMs)),
    stepMs,
    steps: results.reduce((sum, result) => sum + result.stepMs.length, 0),
    success: results.reduce((sum, result) => sum + result.good, 0) / sessions,
    firstFailure: results.find((result) => result.firstFailure !== undefined)?.firstFailure,
  };
}

function quantiles(parts: readonly Float32Array[]): Quantiles {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  all.sort();
  const at99 = Math.max(0, Math.ceil(0.99 * all.length) - 1);
  return {
    p50: all[Math.max(0, Math.ceil(0.5 * all.length) - 1)] ?? Number.NaN,
    p99: all[at99] ?? Number.NaN,
    max: all.at(-1) ?? Number.NaN,
  };
}

function messageOf<K extends SessionsMessage["kind"]>(
  child: ChildProcess,
  kind: K,
): Promise<Extract<SessionsMessage, { readonly kind: K }>> {
  return new Promise((resolve, reject) => {
    child.on("message", (message: SessionsMessage) => {
      if (isOf(message, kind)) {
        resolve(message);
      }
    });
    void once(child, "exit").then(([status]) => {
      reject(new Error(`a process of sessions ended with ${status} before it was "${kind}"`));
    });
  });
}

function isOf<K extends SessionsMessage["kind"]>(
  message: SessionsMessage,
  kind: K,
): message is Extract<SessionsMessage, { readonly kind: K }> {
  return message.kind === kind;
}
