// SPDX-License-Identifier: Apache-2.0
// A process of sessions. It receives one job, and sends the result.
import { setTimeout as sleep } from "node:timers/promises";
import { ownConnection, type Session, type SharedConnection, sharedConnection } from "./session.ts";

/** Sessions of one process. */
export interface SessionsJob {
  /** Addresses of the server, which sessions use in turn. */
  readonly urls: readonly string[];
  readonly sessions: number;
  readonly sessionsPerConnection: number;
  /** Time from a step to the next one of a session. */
  readonly everyMs: number;
  readonly seconds: number;
}

/** Results of a process. */
export interface SessionsResult {
  /** Milliseconds from the start of all sessions until each had its first observation. */
  readonly connectMs: Float32Array;
  /** Milliseconds of each later step. */
  readonly stepMs: Float32Array;
  /** Sessions that lived to the end without an error. */
  readonly good: number;
  readonly firstFailure: string | undefined;
}

/** Messages to and from a process of sessions. */
export type SessionsMessage =
  | { readonly kind: "start"; readonly job: SessionsJob }
  | { readonly kind: "connected" }
  | { readonly kind: "step" }
  | { readonly kind: "result"; readonly result: SessionsResult };

/** Connections or joins that are in progress at a time. */
const mostAtOnce = 256;

/** Runs `body` for 0…count − 1, at most `mostAtOnce` at a time. */
async function each(count: number, body: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lanes = Array.from({ length: Math.min(mostAtOnce, count) }, async () => {
    while (next < count) {
      const i = next;
      next += 1;
      await body(i);
    }
  });
  await Promise.all(lanes);
}

async function play(job: SessionsJob, begin: Promise<void>): Promise<SessionsResult> {
  const { urls, sessions, sessionsPerConnection, everyMs, seconds } = job;
  const connectMs: number[] = [];
  const stepMs: number[] = [];
  const joined: Session[] = [];
  let firstFailure: string | undefined;
  const fail = (error: unknown): void => {
    firstFailure ??= String(error);
  };
  const startedAt = performance.now();
  const shared = new Map<number, SharedConnection>();
  const open = (i: number): Promise<Session> => {
    const place = Math.floor(i / sessionsPerConnection);
    const url = urls[place % urls.length] ?? "";
    if (sessionsPerConnection === 1) {
      return ownConnection(url);
    }
    const connection = shared.get(place) ?? sharedConnection(url);
    shared.set(place, connection);
    return connection.open();
  };
  await each(sessions, async (i) => {
    try {
      joined.push(await open(i));
      connectMs.push(performance.now() - startedAt);
    } catch (error) {
      fail(error);
    }
  });
  process.send?.({ kind: "connected" } satisfies SessionsMessage);
  await begin;
  const end = performance.now() + seconds * 1000;
  let good = 0;
  const playing = joined.map(async (session, i) => {
    try {
      await sleep((i / joined.length) * everyMs);
      while (performance.now() < end) {
        const at = performance.now();
        await session.step();
        const ms = performance.now() - at;
        stepMs.push(ms);
        await sleep(Math.max(0, everyMs - ms));
      }
      good += 1;
    } catch (error) {
      fail(error);
    }
  });
  await Promise.all(playing);
  await each(joined.length, async (i) => {
    await joined[i]?.close().catch(fail);
  });
  for (const connection of shared.values()) {
    connection.close();
  }
  return {
    connectMs: Float32Array.from(connectMs),
    stepMs: Float32Array.from(stepMs),
    good,
    firstFailure,
  };
}

let begin = (): void => {};
const begun = new Promise<void>((resolve) => {
  begin = resolve;
});
process.on("message", (message: SessionsMessage) => {
  if (message.kind === "step") {
    begin();
    return;
  }
  if (message.kind !== "start") {
    return;
  }
  play(message.job, begun).then(
    (result) => {
      process.send?.({ kind: "result", result } satisfies SessionsMessage, () =>
        process.disconnect(),
      );
    },
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exit(1);
    },
  );
});
