// SPDX-License-Identifier: Apache-2.0
import type { Environment } from "@dm-env-rpc/client";
import type { Load } from "../loads/load.ts";
import { moveAt, type Turn } from "./peer.ts";

/** Steps of one `stepMany`; two of them overlap, so that the window never runs empty. */
const batch = 256;

/** One step after the other. */
export async function lockStep(
  env: Environment,
  load: Load,
  { until, latencies }: Turn,
  before: number,
): Promise<number> {
  let tick = before;
  let now = performance.now();
  while (now < until) {
    const step = await env.step({ move: moveAt(tick) });
    tick += 1;
    load.check(tick, step);
    const then = now;
    now = performance.now();
    latencies.record((now - then) * 1000);
  }
  return tick - before;
}

function* movesFrom(tick: number): Generator<{ move: number }> {
  for (let i = 0; i < batch; i++) {
    yield { move: moveAt(tick + i) };
  }
}

/** `stepMany` after `stepMany`; the connection decides how many are in flight. */
export async function stepsInBatches(
  env: Environment,
  load: Load,
  { until }: Turn,
  before: number,
): Promise<number> {
  let tick = before;
  let asked = before + batch;
  let next = env.stepMany(movesFrom(before));
  for (let over = false; !over; ) {
    over = performance.now() >= until;
    const current = next;
    if (!over) {
      next = env.stepMany(movesFrom(asked));
      asked += batch;
    }
    for (const step of await current) {
      tick += 1;
      load.check(tick, step);
    }
  }
  return tick - before;
}

/** A promise for each step, as many at a time as the turn allows. */
export async function overlapping(
  env: Environment,
  load: Load,
  { inFlight, until, latencies }: Turn,
  before: number,
): Promise<number> {
  let asked = before;
  let tick = before;
  const lane = async (): Promise<void> => {
    let now = performance.now();
    while (now < until) {
      const answer = env.step({ move: moveAt(asked) });
      asked += 1;
      const step = await answer;
      tick += 1;
      load.check(tick, step);
      const then = now;
      now = performance.now();
      latencies.record((now - then) * 1000);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return tick - before;
}

/** The tick at which the agents of a shared world stop, so that none waits for others forever. */
const lastTicks = new WeakMap<Turn, number>();

/** One step after the other, in a world that waits for all of its agents; they share a turn. */
export async function inStep(
  env: Environment,
  load: Load,
  turn: Turn,
  before: number,
): Promise<number> {
  let tick = before;
  let now = performance.now();
  while (tick < (lastTicks.get(turn) ?? Number.POSITIVE_INFINITY)) {
    if (now >= turn.until && !lastTicks.has(turn)) {
      lastTicks.set(turn, tick + 1);
    }
    const step = await env.step({ move: moveAt(tick) });
    tick += 1;
    load.check(tick, step);
    const then = now;
    now = performance.now();
    turn.latencies.record((now - then) * 1000);
  }
  return tick - before;
}
