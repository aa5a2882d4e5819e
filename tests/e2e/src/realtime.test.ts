// SPDX-License-Identifier: Apache-2.0
import { type Connection, connect } from "@dm-env-rpc/client";
import {
  blockingReset,
  type RealtimeEnvironment,
  realtime,
  throttle,
} from "@dm-env-rpc/client/realtime";
import { defineWorld, realtime as realtimeClock, type Server, serve } from "@dm-env-rpc/server";
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";

const ticksPerSecond = 50;

/** Counters of the worlds of a test. */
interface Log {
  sequences: number;
  ticks: number;
  /** Number of ticks with the key down. */
  down: number;
}

/** Defines a real-time world at 50 Hz; a sequence has `length` ticks, each with a reward of 1. */
function runner(log: Log, length: number, answer: "next" | "newest") {
  return defineWorld({
    name: "runner",
    actions: { key: t.bool(), turn: t.float32() },
    observations: { tick: t.int32(), reward: t.float32() },
    clock: realtimeClock({ ticksPerSecond, answer }),
    create() {
      let tick = 0;
      return {
        start() {
          log.sequences++;
          tick = 0;
        },
        validate(_agent, { turn = 0, key = false }) {
          if (turn < 0 && key) {
            throw new DmEnvRpcError("INVALID_ARGUMENT", "release the key to turn back");
          }
        },
        step(actions) {
          tick++;
          log.ticks++;
          if ([...actions.values()].some(({ key }) => key === true)) {
            log.down++;
          }
        },
        status: () => (tick >= length ? "terminated" : "running"),
        observe: { tick: () => tick, reward: () => 1 },
      };
    },
  });
}

interface Scene extends AsyncDisposable {
  readonly log: Log;
  readonly connection: Connection;
  readonly server: Server;
  readonly env: RealtimeEnvironment<
    { readonly key?: boolean; readonly turn?: number },
    { readonly tick: number }
  >;
}

/** Starts a real server and the real-time client with its defaults. */
async function scene(length: number, answer: "next" | "newest"): Promise<Scene> {
  const log = { sequences: 0, ticks: 0, down: 0 };
  const world = runner(log, length, answer);
  const server = await serve({ worlds: [world] });
  const connection = await connect(server.url);
  const agent = await connection.join(await connection.createWorld(), { as: world });
  const env = realtime(agent);
  return {
    log,
    connection,
    server,
    env,
    async [Symbol.asyncDispose]() {
      await env.close();
      await connection.close();
      await server.close();
    },
  };
}

describe.each(["next", "newest"] as const)(
  "a server at 50 Hz that answers with the %s",
  (answer) => {
    it("behaviour 54: advances without steps, and sums up the rewards", async () => {
      await using world = await scene(1_000_000, answer);
      const [first] = await blockingReset(world.env).reset();
      expect(first?.tick).toBe(0);
      world.env.take();
      while ((world.env.peek()[0]?.tick ?? 0) < 10) {
        await world.env.next();
      }
      const { observationN, rewardN, doneN, info } = world.env.take();
      const ticks = observationN[0]?.tick ?? 0;
      expect(ticks).toBeGreaterThanOrEqual(10);
      expect([rewardN, doneN]).toEqual([[ticks], [false]]);
      const lags = info.n[0];
      expect(lags?.roundTripMs).toBeGreaterThan(0);
      expect(lags?.rewardLagMs).toBeGreaterThanOrEqual(
        lags?.observationLagMs ?? Number.POSITIVE_INFINITY,
      );
      expect(lags?.framesPerSecond).toBeGreaterThan(0);
    });

    it("behaviour 55: returns from repeated resets at once", async () => {
      await using world = await scene(1_000_000, answer);
      expect(await world.env.reset()).toEqual([null]);
      await world.env.next();
      expect(await world.env.reset()).toEqual([null]);
      expect(await blockingReset(world.env).reset()).toMatchObject([{ tick: expect.any(Number) }]);
    });

    it("behaviour 56: resets an index whose sequence has ended, and reports every sequence", async () => {
      await using world = await scene(15, answer);
      const env = throttle(world.env, 25);
      await blockingReset(env).reset();
      let seen = 0;
      let summed = 0;
      while (seen < 5) {
        // Several requests are in flight when a sequence ends.
        for (const turn of [1, 2, 3]) {
          env.act([{ turn }]);
        }
        const { rewardN, doneN, observationN, info } = await env.step([{ key: true }]);
        expect(info.n).toHaveLength(observationN.length);
        summed += rewardN[0] ?? 0;
        if (doneN[0] !== true) {
          continue;
        }
        seen++;
        expect(observationN[0]?.tick).toBe(15);
        expect(summed).toBeGreaterThan(0);
        expect(summed).toBeLessThanOrEqual(15);
        summed = 0;
      }
      // The sixth sequence may have started while the fifth was read.
      expect(world.log.sequences - seen).toBeLessThanOrEqual(1);
    });

    it("behaviour 57: refuses a step before the first reset", async () => {
      await using world = await scene(1_000_000, answer);
      await expect(world.env.step([{}])).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        origin: "client",
      });
    });

    it("behaviour 58: throttles to a rate and adds up the rewards of each frame", async () => {
      await using world = await scene(1_000_000, answer);
      const env = throttle(world.env, 10);
      await blockingReset(env).reset();
      world.env.take();
      let summed = 0;
      let last = 0;
      while (last < 20) {
        const { rewardN, observationN } = await env.step([{ key: true }]);
        summed += rewardN[0] ?? 0;
        last = observationN[0]?.tick ?? 0;
      }
      expect(summed).toBe(last);
    });

    it("behaviour 64: holds a key that an agent at 5 frames a second presses", async () => {
      await using world = await scene(1_000_000, answer);
      const env = throttle(world.env, 5);
      await blockingReset(env).reset();
      await env.step([{ key: true }]);
      const { ticks, down } = world.log;
      while (world.log.ticks < ticks + 40) {
        await env.step([{ turn: 1 }]);
      }
      expect((world.log.down - down) / (world.log.ticks - ticks)).toBeGreaterThanOrEqual(0.95);
    });

    it("behaviour 68: continues after a refused action, with the actions in force", async () => {
      await using world = await scene(1_000_000, answer);
      const env = throttle(world.env, 5);
      await blockingReset(env).reset();
      await env.step([{ key: true }]);
      const { ticks, down } = world.log;
      const refused = await env.step([{ turn: -1 }]);
      expect(refused.info.n[0]).toMatchObject({
        status: "running",
        failure: undefined,
        refusal: { code: "INVALID_ARGUMENT", message: "release the key to turn back" },
      });
      while (world.log.ticks < ticks + 40) {
        const played = await env.step([{ turn: 1 }]);
        expect(played.info.n[0]).toMatchObject({ status: "running", refusal: undefined });
      }
      expect((world.log.down - down) / (world.log.ticks - ticks)).toBeGreaterThanOrEqual(0.95);
    });

    it("behaviour 65: does not wait for an agent that never steps, and reports every sequence", async () => {
      await using world = await scene(25, answer);
      const silent = await connect(world.server.url);
      try {
        const [name = ""] = world.server.worldNames();
        await silent.join(name);
        const env = throttle(world.env, 5);
        await blockingReset(env).reset();
        const { ticks } = world.log;
        let seen = 0;
        // Four seconds of the world's time.
        while (world.log.ticks < ticks + 200) {
          const { doneN } = await env.step([{ key: true }]);
          if (doneN[0] === true) {
            seen++;
          }
        }
        expect(seen).toBeGreaterThanOrEqual(4);
        expect(world.log.sequences - seen).toBeLessThanOrEqual(2);
      } finally {
        await silent.close();
      }
    });
  },
);
