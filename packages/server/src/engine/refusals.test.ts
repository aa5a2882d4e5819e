// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, TensorError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { realtime } from "../clocks/realtime.ts";
import { turns } from "../clocks/turns.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import type { Clock } from "../definition/clock.ts";
import { defineEnvironment } from "../definition/environment.ts";
import { refuse } from "../definition/refuse.ts";
import { defineWorld, type UntypedWorldDefinition } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

const taken = (field: number) =>
  new DmEnvRpcError("INVALID_ARGUMENT", `field ${field} is taken; take a free one`);

interface FieldsOptions {
  readonly clock: Clock;
  /** When fields are checked: before a step, or in it. */
  readonly checks: "validate" | "step" | "late step" | "unmarked step";
  readonly log?: string[] | undefined;
}

/** Agents claim fields of a board; no field can be claimed twice. */
function fields({ clock, checks, log = [] }: FieldsOptions) {
  return defineWorld({
    name: "fields",
    clock,
    actions: { field: t.int32() },
    observations: { count: t.int32(), reward: t.float32() },
    create() {
      const board = new Map<number, number>();
      const check = (field = -1): void => {
        if (field < 0) {
          throw new TensorError({ reason: "value", expected: "a field", received: "none" });
        }
        if (field === 13) {
          throw new Error("there is no luck");
        }
        if (board.has(field)) {
          throw taken(field);
        }
      };
      return {
        start: () => board.clear(),
        ...(checks === "validate" && {
          validate(agent: number, { field }: { readonly field?: number }) {
            log.push(`validate ${agent}:${field}`);
            check(field);
          },
        }),
        async step(actions) {
          if (checks === "late step") {
            await quiet();
          }
          for (const [agent, { field }] of actions) {
            try {
              if (checks !== "validate") {
                check(field);
              }
            } catch (error) {
              throw checks === "unmarked step" ? error : refuse(error as DmEnvRpcError);
            }
            board.set(field ?? -1, agent);
          }
          log.push(
            `tick ${[...actions].map(([agent, { field }]) => `${agent}:${field}`).join(" ")}`,
          );
        },
        observe: { count: () => board.size, reward: (agent) => agent },
      };
    },
  });
}

async function setUp(definition: UntypedWorldDefinition, count = 2) {
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [definition], time });
  const world = await connectPeer(server).createWorld();
  const [one, two] = (await joinedPeers(server, world, count)) as [Peer, Peer];
  return { time, server, world, one, two };
}

describe("behaviour 68: validate refuses a step", () => {
  it("with the error, and no other agent notices", async () => {
    const log: string[] = [];
    const { one, two } = await setUp(fields({ clock: lockstep(), checks: "validate", log }));
    await Promise.all([one.step({ field: -1 }), two.step({ field: -1 })]);
    await Promise.all([one.step({ field: 1 }), two.step({ field: 2 })]);
    log.length = 0;
    const waiting = two.step({ field: 3 });
    await expect(one.step({ field: 2 })).rejects.toThrow(/^3: field 2 is taken/);
    expect(await isBlocked(waiting)).toBe(true);
    await expect(one.step({})).rejects.toThrow(/^3: expected a field, received none/);
    const stepped = await one.step({ field: 4 });
    expect(stepped).toMatchObject({ state: "RUNNING", observations: { count: 4, reward: 1 } });
    expect((await waiting).observations).toMatchObject({ count: 4, reward: 2 });
    expect(log).toEqual([
      "validate 2:3",
      "validate 1:2",
      "validate 1:undefined",
      "validate 1:4",
      "tick 1:4 2:3",
    ]);
  });

  it("but not the first step of a sequence, whose actions are ignored", async () => {
    const log: string[] = [];
    const { one, two } = await setUp(fields({ clock: lockstep(), checks: "validate", log }));
    const first = [one.step({ field: 13 }), two.step()];
    expect((await Promise.all(first)).map(({ state }) => state)).toEqual(["RUNNING", "RUNNING"]);
    await one.reset();
    expect((await one.step({ field: 13 })).state).toBe("RUNNING");
    expect(log).toEqual([]);
  });

  it("that was sent ahead, and the steps sent after it are played", async () => {
    const { one } = await setUp(fields({ clock: lockstep(), checks: "validate" }), 1);
    const ahead = [-1, 1, 1, 2, 1, 3].map((field) => one.step({ field }));
    const outcomes = await Promise.allSettled(ahead);
    expect(outcomes.map(({ status }) => status)).toEqual([
      ...["fulfilled", "fulfilled", "rejected", "fulfilled", "rejected", "fulfilled"],
    ]);
    expect((await one.step({ field: 4 })).observations["count"]).toBe(4);
  });

  it("and the deadline of its agent keeps running", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, time } = await setUp(fields({ clock, checks: "validate" }));
    await Promise.all([one.step(), two.step()]);
    const waiting = two.step({ field: 1 });
    await quiet();
    time.advance(40);
    await expect(one.step({})).rejects.toThrow(/^3: /);
    time.advance(9);
    expect(await isBlocked(waiting)).toBe(true);
    time.advance(1);
    expect((await waiting).state).toBe("RUNNING");
    await expect(one.step({ field: 2 })).rejects.toThrow(/^4: .*50 ms/);
  });

  it("and a missed deadline does not repeat an action that is no longer legal", async () => {
    const log: string[] = [];
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "repeat-last" });
    const { one, two, time } = await setUp(fields({ clock, checks: "validate", log }));
    await Promise.all([one.step(), two.step()]);
    await Promise.all([one.step({ field: 1 }), two.step({ field: 2 })]);
    await expect(one.step({ field: 2 })).rejects.toThrow(/taken/);
    const waiting = two.step({ field: 3 });
    await quiet();
    time.advance(50);
    expect((await waiting).observations["count"]).toBe(3);
    expect(log.slice(-2)).toEqual(["validate 1:1", "tick 2:3"]);
  });

  it("again when its turn comes, if the world has moved on since it arrived", async () => {
    const clock = turns({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const { one, two, time } = await setUp(fields({ clock, checks: "validate" }));
    const second = two.step();
    await one.step();
    const firstMove = one.step({ field: 1 });
    await second;
    await quiet();
    // Agent two misses its turn, and then moves during the turn of agent one.
    time.advance(50);
    await firstMove;
    const early = two.step({ field: 2 });
    await quiet();
    const next = one.step({ field: 2 });
    await expect(early).rejects.toThrow(/^3: field 2 is taken/);
    void two.step({ field: 3 });
    expect((await next).observations["count"]).toBe(3);
  });

  it("but ends the world if it throws any other error", async () => {
    const { one, two } = await setUp(fields({ clock: lockstep(), checks: "validate" }));
    await Promise.all([one.step(), two.step()]);
    await expect(one.step({ field: 13 })).rejects.toThrow(
      /^13: .*"validate" failed: there is no luck/,
    );
    await expect(two.step({ field: 1 })).rejects.toThrow(/^13: /);
  });
});

describe("behaviour 68: `step` refuses the actions of a single agent", () => {
  it.each([
    ["at once", "step"],
    ["after a while", "late step"],
  ] as const)("%s in turns, and the agent's deadline keeps running", async (_when, checks) => {
    const clock = turns({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, time } = await setUp(fields({ clock, checks }));
    const second = two.step();
    await one.step();
    const moved = one.step({ field: 1 });
    await second;
    await quiet();
    time.advance(40);
    await expect(two.step({ field: 1 })).rejects.toThrow(/^3: field 1 is taken/);
    expect(await isBlocked(moved)).toBe(true);
    const again = two.step({ field: 2 });
    expect((await moved).observations).toMatchObject({ count: 2, reward: 2 });
    await quiet();
    time.advance(40);
    await expect(one.step({ field: 2 })).rejects.toThrow(/^3: /);
    time.advance(10);
    expect((await again).observations["count"]).toBe(2);
    await expect(one.step({ field: 3 })).rejects.toThrow(/^4: /);
  });

  it("on a clock where each agent steps for itself", async () => {
    const { one, two } = await setUp(fields({ clock: freeRunning(), checks: "late step" }));
    await Promise.all([one.step(), two.step()]);
    await one.step({ field: 1 });
    const both = await Promise.allSettled([two.step({ field: 1 }), one.step({ field: 2 })]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect((await two.step({ field: 3 })).observations).toMatchObject({ count: 3, reward: 6 });
  });

  it("in an environment that also has `validate`", async () => {
    const environment = defineEnvironment({
      name: "environment",
      actions: { by: t.int32() },
      observations: { at: t.int32() },
      create() {
        let at = 0;
        return {
          reset: () => ({ at }),
          validate({ by }) {
            if (by === undefined) {
              throw new DmEnvRpcError("INVALID_ARGUMENT", "say how far");
            }
          },
          async step({ by = 0 }) {
            if (at + by < 0) {
              throw refuse(new DmEnvRpcError("INVALID_ARGUMENT", "there is a wall"));
            }
            at += by;
            return { observation: { at }, reward: by };
          },
        };
      },
    });
    const { one, two } = await setUp(environment);
    await one.step();
    await expect(one.step({})).rejects.toThrow(/^3: say how far/);
    await one.step({ by: 2 });
    await expect(one.step({ by: -3 })).rejects.toThrow(/^3: there is a wall/);
    expect((await one.step({ by: 1 })).observations).toEqual({ at: 3, reward: 1 });
    expect((await two.step()).state).toBe("RUNNING");
  });

  it.each([
    ["an error that `refuse` did not create", turns(), "unmarked step"],
    ["a refusal in a tick of several agents", lockstep(), "step"],
  ] as const)("but %s ends the world", async (_what, clock, checks) => {
    const { one, two } = await setUp(fields({ clock, checks }));
    const second = two.step();
    await one.step();
    const moved = one.step({ field: 1 });
    void second.then(() => two.step({ field: 1 })).catch(() => {});
    await expect(moved.then(() => one.step({ field: 1 }))).rejects.toThrow(
      /^13: .*"step" failed: field 1 is taken/,
    );
  });

  it("but not on the clock wakeUp, even if only one agent plays", async () => {
    const clock = wakeUp({ action: "field" });
    const { one } = await setUp(fields({ clock, checks: "step" }), 1);
    await one.step();
    await one.step({ field: 1 });
    await expect(one.step({ field: 1 })).rejects.toThrow(/^13: .*"step" failed: field 1 is taken/);
  });

  it("but not a tick in which no agent acts", async () => {
    const stubborn = defineWorld({
      name: "stubborn",
      clock: turns({ deadlineMs: 50, onMissedDeadline: "default-action" }),
      actions: {},
      observations: {},
      create: () => ({
        step(actions) {
          if (actions.size === 0) {
            throw refuse(new DmEnvRpcError("INVALID_ARGUMENT", "moves are not allowed"));
          }
        },
        observe: {},
      }),
    });
    const late = await setUp(stubborn);
    void late.two.step().catch(() => {});
    await late.one.step();
    await quiet();
    late.time.advance(50);
    await expect(late.one.step()).rejects.toThrow(/^13: .*"step" failed: moves are not allowed/);
  });

  it.each([
    ["at once", "step"],
    ["after a while", "late step"],
  ] as const)(
    "%s, and refused actions that a missed deadline repeats are omitted from the tick",
    async (_when, checks) => {
      const log: string[] = [];
      const clock = turns({ deadlineMs: 50, onMissedDeadline: "repeat-last" });
      const { one, two, time } = await setUp(fields({ clock, checks, log }));
      const second = two.step();
      await one.step();
      const moved = one.step({ field: 1 });
      await second;
      const waiting = two.step({ field: 2 });
      await moved;
      await quiet();
      time.advance(50);
      expect(await waiting).toEqual({ state: "RUNNING", observations: { count: 2, reward: 4 } });
      expect(log).toEqual(["tick 1:1", "tick 2:2", "tick "]);
      const next = two.step({ field: 3 });
      void one.step({ field: 4 }).catch(() => {});
      expect((await next).observations["count"]).toBe(4);
      expect(log.slice(3)).toEqual(["tick 2:3", "tick 1:4"]);
    },
  );
});

describe("behaviour 68: validate on a real-time clock", () => {
  /**
   * A ship that cannot fire while it moves, nor without ammunition: it holds one round and reloads
   * every third tick.
   */
  function ships(log: string[], answer: "next" | "newest") {
    return defineWorld({
      name: "ships",
      clock: realtime({ ticksPerSecond: 10, answer }),
      actions: { thrust: t.int32(), fire: t.int32() },
      observations: { at: t.int32(), shots: t.int32() },
      create() {
        let [at, shots, ticks, rounds] = [0, 0, 0, 1];
        return {
          validate(_agent, { thrust = 0, fire = 0 }) {
            if (fire > 0 && thrust > 0) {
              throw new DmEnvRpcError("INVALID_ARGUMENT", "stop to fire");
            }
            if (fire > 0 && rounds === 0) {
              throw new DmEnvRpcError("FAILED_PRECONDITION", "no ammunition");
            }
          },
          step(actions) {
            ticks += 1;
            log.push(JSON.stringify([...actions.values()]));
            for (const { thrust = 0, fire = 0 } of actions.values()) {
              at += thrust;
              shots += fire;
              rounds -= fire;
            }
            rounds = ticks % 3 === 0 ? 1 : rounds;
          },
          observe: { at: () => at, shots: () => shots },
        };
      },
    });
  }

  async function launched(answer: "next" | "newest" = "newest") {
    const log: string[] = [];
    const { one, two, time } = await setUp(ships(log, answer));
    await one.step();
    const tick = async (): Promise<void> => {
      time.advance(100);
      await quiet();
    };
    return { one, two, tick, log };
  }

  it("receives the actions that would be in force, and a refusal leaves those in force unchanged", async () => {
    const { one, two, tick, log } = await launched();
    await one.step({ thrust: 1 });
    await expect(one.step({ fire: 1 })).rejects.toThrow(/^3: stop to fire/);
    await tick();
    expect((await one.step({})).observations).toEqual({ at: 1, shots: 0 });
    await one.step({ thrust: 0, fire: 1 });
    await expect(one.step({ thrust: 2 })).rejects.toThrow(/^3: stop to fire/);
    await tick();
    expect((await one.step({})).observations).toEqual({ at: 1, shots: 1 });
    expect(log).toEqual(['[{"thrust":1}]', '[{"thrust":0,"fire":1}]']);
    expect((await two.step()).state).toBe("RUNNING");
  });

  it("omits actions in force for as long as it refuses them; steps without actions are answered", async () => {
    const { one, tick, log } = await launched();
    await one.step({ thrust: 0, fire: 1 });
    for (let ticks = 1; ticks <= 4; ticks++) {
      await tick();
      expect((await one.step({})).state).toBe("RUNNING");
    }
    const held = '[{"thrust":0,"fire":1}]';
    expect(log).toEqual([held, "[]", "[]", held]);
    await expect(one.step({ thrust: 0 })).rejects.toThrow(/^9: no ammunition/);
    await one.step({ fire: 0, thrust: 1 });
    await tick();
    expect((await one.step({})).observations).toEqual({ at: 1, shots: 2 });
  });

  it("answers a waiting step at the tick, even if its actions in force are omitted from that tick", async () => {
    const { one, tick, log } = await launched("next");
    for (const actions of [{ fire: 1 }, {}]) {
      const stepped = one.step(actions);
      await quiet();
      await tick();
      expect(await stepped).toEqual({ state: "RUNNING", observations: { at: 0, shots: 1 } });
    }
    expect(log).toEqual(['[{"fire":1}]', "[]"]);
  });
});
