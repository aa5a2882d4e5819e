// SPDX-License-Identifier: Apache-2.0
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clocks, steppedClocks } from "../../testing/clocks.ts";
import {
  connectPeer,
  isBlocked,
  joinedPeers,
  type Peer,
  quiet,
  type StepResult,
} from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { turns } from "../clocks/turns.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

const add = (...numbers: number[]) => ({
  add: tensor("int32", [numbers.length], Int32Array.from(numbers)),
});

async function setUp(
  seats: number,
  options: TallyOptions = {},
  settings = {},
  time = manualTime(),
) {
  const log: TallyEvent[] = [];
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const rows = connectPeer(server);
  const world = await rows.createWorld(settings);
  await rows.join(world, { seats });
  return { server, world, rows, log, time };
}

const [first, mid, last] = [0, 1, 2];

describe("behaviour 73: a stream with several seats", () => {
  it("has every spec with a leading dimension, and the step type and end of each row", async () => {
    const { rows, log } = await setUp(3);
    const shapes = (table: Peer["observations"]) =>
      Object.fromEntries(
        table?.entries.map(({ name, spec }) => [name, `${spec.dtype} [${spec.shape}]`]) ?? [],
      );
    expect(shapes(rows.actions)).toEqual({
      add: "int32 [3]",
      sleep: "int32 [3]",
      begin_mask: "bool [3]",
    });
    expect(shapes(rows.observations)).toEqual({
      total: "int32 [3]",
      tick: "int32 [3]",
      sequence: "int32 [3]",
      row: "int32 [3,2]",
      reward: "float32 [3]",
      step_type: "uint8 [3]",
      terminated: "bool [3]",
      truncated: "bool [3]",
    });
    expect(log.filter((event) => event.startsWith("join"))).toEqual(["join 1", "join 2", "join 3"]);
    expect(await rows.step(add(5000, 1, 1))).toMatchObject({
      state: "RUNNING",
      observations: { total: [0, 0, 0], step_type: [first, first, first], reward: [0, 0, 0] },
    });
    expect((await rows.step(add(1, 2, 3))).observations).toMatchObject({
      total: [6, 6, 6],
      step_type: [mid, mid, mid],
    });
    await rows.step();
    expect(await rows.step()).toMatchObject({
      state: "RUNNING",
      observations: {
        step_type: [last, last, last],
        terminated: [true, true, true],
        truncated: [false, false, false],
      },
    });
    expect((await rows.step()).observations["step_type"]).toEqual([first, first, first]);
  });

  it("begins the next sequence of a row that ended at its next step", async () => {
    const { rows } = await setUp(3, {}, { length: 100 });
    await rows.step();
    expect((await rows.step(add(1, 100, 1))).observations).toMatchObject({
      total: [102, 102, 102],
      step_type: [mid, last, mid],
      terminated: [false, true, false],
    });
    expect((await rows.step(add(1, 5, 1))).observations).toMatchObject({
      step_type: [mid, first, mid],
    });
  });

  it("keeps the rows that begin_mask excludes out of the sequence, until it admits them or no row is in a sequence", async () => {
    const { rows, log } = await setUp(3, {}, { length: 100 });
    const begin = (...flags: number[]) => ({
      begin_mask: tensor("bool", [flags.length], Uint8Array.from(flags)),
    });
    const out = begin(0, 0, 0);
    expect((await rows.step(out)).observations["step_type"]).toEqual([first, first, first]);
    await rows.step({ ...add(1, 100, 1), ...out });
    for (let i = 0; i < 2; i++) {
      expect((await rows.step({ ...add(1, 2000, 1), ...out })).observations).toMatchObject({
        step_type: [mid, last, mid],
        total: [104 + 2 * i, 102, 104 + 2 * i],
        reward: [1, 0, 1],
        terminated: [false, false, false],
        truncated: [false, false, false],
      });
    }
    await expect(rows.step(begin(1, 0))).rejects.toThrow(/^3: .*begin_mask/);
    expect(log.filter((event) => event.startsWith("tick"))).toHaveLength(3);
    const letIn = await rows.step({ ...add(1, 5, 100), ...begin(0, 1, 0) });
    expect(letIn.observations["step_type"]).toEqual([mid, first, last]);
    await rows.step({ ...add(100, 100, 0), ...out });
    expect((await rows.step(out)).observations["step_type"]).toEqual([first, first, first]);
  });

  it("continues without a row that waits for the next sequence, and repeats that row's last observations", async () => {
    const { rows } = await setUp(3, { lateEntry: "next-sequence" }, { length: 4 });
    await rows.step();
    await rows.step(add(1, 100, 1));
    for (let i = 0; i < 2; i++) {
      expect((await rows.step(add(1, 7, 1))).observations).toMatchObject({
        step_type: [mid, last, mid],
        terminated: [false, false, false],
        truncated: [false, false, false],
      });
    }
    expect((await rows.step(add(1, 7, 1))).observations).toMatchObject({
      step_type: [last, last, last],
      terminated: [true, false, true],
    });
    expect((await rows.step(add(1, 7, 1))).observations).toMatchObject({
      total: [0, 0, 0],
      step_type: [first, first, first],
    });
    expect((await rows.step(add(1, 7, 1))).observations["total"]).toEqual([9, 9, 9]);
  });

  it("waits with every row for the other agents of the world, and they for every row", async () => {
    const { server, world, rows } = await setUp(2, {}, { length: 100 });
    const [other] = (await joinedPeers(server, world, 1)) as [Peer];
    const begun = rows.step();
    expect(await isBlocked(begun)).toBe(true);
    await other.step();
    await begun;
    const step = other.step({ add: 1 });
    expect(await isBlocked(step)).toBe(true);
    expect((await rows.step(add(2, 3))).observations["total"]).toEqual([6, 6]);
    await step;
  });

  it("refuses the whole step if any row's part is refused, before any row steps", async () => {
    const { rows, log } = await setUp(3, {}, { length: 100 });
    await rows.step();
    await rows.step(add(1, 0, 0));
    const ticks = () => log.filter((event) => event.startsWith("tick")).length;
    const before = ticks();
    await expect(rows.step(add(1, 1, 2000))).rejects.toThrow(/^3: row 2: .*add/);
    await expect(rows.step(add(1, 366, 1))).rejects.toThrow(/^3: row 1: 366 is not added/);
    await expect(rows.step(add(1, 1))).rejects.toThrow(/^3: .*add/);
    await expect(rows.step({}, ["unknown"])).rejects.toThrow(/^3: .*999/);
    expect(ticks()).toBe(before);
    expect((await rows.step(add(1, 1, 1))).observations["total"]).toEqual([4, 4, 4]);
  });

  it("resets every row, with the settings for each", async () => {
    const { rows, log } = await setUp(2, {}, { length: 100 });
    await rows.step();
    await rows.step(add(1, 1));
    await rows.reset({ width: 3 });
    expect(log.filter((event) => event.startsWith("reset"))).toEqual(["reset 1", "reset 2"]);
    expect(rows.observations?.byName.get("row")?.spec.shape).toEqual([2, 3]);
    expect((await rows.step()).observations).toMatchObject({
      step_type: [first, first],
      row: [
        [1, 1, 1],
        [2, 2, 2],
      ],
    });
  });

  it("every row reports a reset of the world by another agent, but not by its own stream", async () => {
    const { server, world, rows } = await setUp(2, {}, { length: 100 });
    await rows.step();
    const reset = connectPeer(server).resetWorld(world);
    expect(await isBlocked(reset)).toBe(true);
    expect((await rows.step(add(1, 1))).observations).toMatchObject({
      step_type: [last, last],
      truncated: [true, true],
    });
    await reset;
    expect((await rows.step()).observations["step_type"]).toEqual([first, first]);
    await rows.resetWorld(world);
    expect((await rows.step()).observations["step_type"]).toEqual([first, first]);
  });

  it("leaves with every row, also while a step waits for others", async () => {
    const { server, world, rows, log } = await setUp(2, {}, { length: 100 });
    const [other] = (await joinedPeers(server, world, 1)) as [Peer];
    const waiting = rows.step();
    expect(await isBlocked(waiting)).toBe(true);
    const rejected = expect(waiting).rejects.toThrow(/^1: /);
    await rows.leave();
    await rejected;
    expect(log.filter((event) => event.startsWith("leave"))).toEqual(["leave 1", "leave 2"]);
    expect((await other.step()).state).toBe("RUNNING");
    await rows.join(world, { seats: 3 });
    rows.drop();
    await quiet();
    expect(log.filter((event) => event.startsWith("leave"))).toHaveLength(5);
  });

  it("loses all its seats if one row is removed", async () => {
    const clock = lockstep({ deadlineMs: 100, onMissedDeadline: "leave" });
    const { server, world, rows, time } = await setUp(2, { clock }, { length: 100 });
    const [other] = (await joinedPeers(server, world, 1)) as [Peer];
    await Promise.all([rows.step(), other.step()]);
    const step = other.step({ add: 1 });
    expect(await isBlocked(step)).toBe(true);
    time.advance(100);
    await step;
    await expect(rows.step(add(1, 1))).rejects.toThrow(/^4: .*100 ms/);
    await rows.join(world, { seats: 2 });
  });

  it("fails with its world, in one answer", async () => {
    const fragile = defineWorld({
      name: "fragile",
      actions: { hit: t.bool() },
      observations: {},
      create: () => ({
        step(actions) {
          if ([...actions.values()].some(({ hit }) => hit)) {
            throw new Error("it broke");
          }
        },
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [fragile] });
    const rows = connectPeer(server);
    await rows.join(await rows.createWorld(), { seats: 3 });
    await rows.step();
    const hit = tensor("bool", [3], Uint8Array.of(0, 1, 0));
    await expect(rows.step({ hit })).rejects.toThrow(/^13: .*it broke/);
    await expect(rows.step()).rejects.toThrow(/it broke/);
  });

  it("joins with no further seat once it is lost", async () => {
    const joins: (() => void)[] = [];
    const slow = defineWorld({
      name: "slow",
      actions: {},
      observations: {},
      create: () => ({
        join: () => new Promise<void>((resolve) => joins.push(resolve)),
        step() {},
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [slow] });
    const world = await connectPeer(server).createWorld();
    const rows = connectPeer(server);
    void rows.join(world, { seats: 3 });
    await quiet();
    rows.drop();
    await quiet();
    joins[0]?.();
    await quiet();
    expect([joins.length, server.worlds()[0]?.agents]).toEqual([1, 0]);
  });

  it("joins with all its seats or with none", async () => {
    const { server, world, rows, log } = await setUp(6, {}, { max_agents: 8 });
    const other = connectPeer(server);
    await expect(other.join(world, { seats: 3 })).rejects.toThrow(/^8: .*room for 8/);
    expect(log.filter((event) => event.startsWith("leave"))).toHaveLength(2);
    await other.join(world, { seats: 2 });
    await expect(connectPeer(server).join(world, { seats: 0 })).rejects.toThrow(/^3: .*seats/);
    await expect(connectPeer(server).join(world, { seats: 2, join_token: "one" })).rejects.toThrow(
      /^3: .*token is for one seat/,
    );
    await rows.leave();
    const named = defineWorld({
      name: "named",
      actions: {},
      observations: { terminated: t.bool(), path: t.int32([-1]) },
      create: () => ({ step() {}, observe: { terminated: () => false, path: () => [] } }),
    });
    const acting = defineWorld({
      ...named,
      name: "acting",
      actions: { begin_mask: { all: t.bool() } },
      observations: {},
      create: () => ({ step() {}, observe: {} }),
    });
    const another = createEnvironmentServer({ worlds: [named, acting] });
    const peer = connectPeer(another);
    for (const [worldType, name] of [
      ["named", 'observation "terminated"'],
      ["acting", 'action "begin_mask.all"'],
    ]) {
      const of = await peer.createWorld({ world_type: worldType });
      await expect(peer.join(of, { seats: 2 })).rejects.toThrow(
        `rows reserve the name of its ${name};`,
      );
      await peer.join(of);
      await peer.leave();
    }
  });

  it("receives its response when it is one row's turn, with the last observations of the other rows", async () => {
    const { rows } = await setUp(2, { clock: turns() }, { length: 100 });
    expect((await rows.step()).observations).toMatchObject({
      step_type: [first, last],
      terminated: [false, false],
      truncated: [false, false],
    });
    expect((await rows.step(add(1, 7))).observations).toMatchObject({
      total: [0, 1],
      step_type: [last, first],
      truncated: [false, false],
    });
    expect((await rows.step(add(7, 2))).observations).toMatchObject({
      total: [3, 1],
      reward: [1, 0],
      step_type: [mid, last],
    });
    expect((await rows.step(add(4, 7))).observations).toMatchObject({
      total: [3, 7],
      step_type: [last, mid],
    });
    await rows.reset();
    expect((await rows.step()).observations["step_type"]).toEqual([first, last]);
  });

  it("answers a refused move while another row waits for its turn, and the row moves again", async () => {
    const { rows } = await setUp(2, { clock: turns() }, { length: 100 });
    await rows.step();
    await rows.step(add(1, 7));
    await expect(rows.step(add(7, 366))).rejects.toThrow(/^3: row 1: 366 is not added/);
    await expect(rows.step(add(7, 2000))).rejects.toThrow(/^3: row 1: .*add/);
    expect((await rows.step(add(7, 2))).observations).toMatchObject({
      total: [3, 1],
      step_type: [mid, last],
    });
  });

  it("answers a refused step while another row sleeps, and the row steps again", async () => {
    const { rows } = await setUp(2, { clock: wakeUp({ action: "sleep" }) }, { length: 100 });
    const sleep = tensor("int32", [2], Int32Array.of(1, 3));
    await rows.step();
    await rows.step({ ...add(1, 0), sleep });
    await expect(rows.step({ ...add(366, 0), sleep })).rejects.toThrow(/^3: row 0: 366 is not/);
    expect((await rows.step({ ...add(2, 0), sleep })).observations).toMatchObject({
      total: [3, 0],
      step_type: [mid, last],
    });
  });

  it.each([
    ["a step", []],
    ["a reset", ["reset"]],
  ] as const)(
    "starts every row with a first step after %s and a reset of the world, on the clock turns",
    async (_name, before) => {
      const { world, rows } = await setUp(3, { clock: turns() }, { length: 100 });
      for (let i = 0; i < 3; i++) {
        expect((await rows.step()).observations["step_type"]).toEqual([first, last, last]);
        for (const _ of before) {
          await rows.reset();
        }
        await rows.resetWorld(world);
        expect((await rows.step()).observations).toMatchObject({
          sequence: [2 * i + 2, 0, 0],
          step_type: [first, last, last],
          truncated: [false, false, false],
        });
        expect((await rows.step(add(1, 7, 7))).observations).toMatchObject({
          total: [0, 1, 0],
          sequence: [2 * i + 2, 2 * i + 2, 0],
          step_type: [last, first, last],
        });
        await rows.resetWorld(world);
      }
    },
  );

  it("steps one row after another on the clock freeRunning, also if the world's step returns a promise", async () => {
    const log: string[] = [];
    const slow = defineWorld({
      name: "slow",
      clock: freeRunning(),
      actions: { add: t.int32() },
      observations: {},
      create: () => ({
        async step(actions) {
          const agents = [...actions.keys()].join();
          log.push(`${agents} begins`);
          await null;
          log.push(`${agents} ends`);
        },
        observe: {},
      }),
    });
    const rows = connectPeer(createEnvironmentServer({ worlds: [slow] }));
    await rows.join(await rows.createWorld(), { seats: 3 });
    await rows.step();
    await rows.step(add(1, 2, 3));
    expect(log).toEqual([1, 2, 3].flatMap((agent) => [`${agent} begins`, `${agent} ends`]));
  });

  it("receives its response when one of its rows wakes, and ignores the actions of rows that sleep", async () => {
    const clock = wakeUp({ action: "sleep" });
    const { rows, log } = await setUp(2, { clock }, { length: 100 });
    const sleep = (...ticks: number[]) => ({
      sleep: tensor("int32", [ticks.length], Int32Array.from(ticks)),
    });
    await rows.step();
    const tickOf = async (...ticks: number[]) => (await rows.step(sleep(...ticks))).observations;
    expect(await tickOf(1, 3)).toMatchObject({ tick: [1, 0], step_type: [mid, last] });
    expect(await tickOf(1, 50)).toMatchObject({ tick: [2, 0], step_type: [mid, last] });
    expect(await tickOf(5, 50)).toMatchObject({ tick: [2, 3], step_type: [last, mid] });
    expect(log.filter((event) => event.startsWith("tick"))).toHaveLength(3);
  });

  it("waits for the turn of another agent", async () => {
    const { server, world, rows } = await setUp(2, { clock: turns() }, { length: 100 });
    const [other] = (await joinedPeers(server, world, 1)) as [Peer];
    const begun = other.step();
    await rows.step();
    await rows.step(add(1, 7));
    const step = rows.step(add(7, 2));
    expect(await isBlocked(step)).toBe(true);
    expect((await begun).observations["total"]).toBe(3);
    const next = other.step({ add: 4 });
    expect((await step).observations).toMatchObject({ total: [7, 1], step_type: [mid, last] });
    expect(await isBlocked(next)).toBe(true);
    rows.drop();
    await next;
  });

  it.each(steppedClocks)(
    "gives the same results on the clock %s as one stream per agent",
    async (name) => {
      const clock = clocks[name].make();
      const size = 3;
      const commands = fc.array(
        fc.oneof(
          fc.record({
            kind: fc.constant("step" as const),
            adds: fc.array(fc.constantFrom(0, 1, 2, 100), { minLength: size, maxLength: size }),
            sleeps: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: size, maxLength: size }),
            begins: fc.option(fc.array(fc.boolean(), { minLength: size, maxLength: size })),
          }),
          fc.record({ kind: fc.constant("reset" as const) }),
        ),
        { maxLength: 20, size: "max" },
      );
      await fc.assert(
        fc.asyncProperty(commands, async (plan) => {
          const { rows, log } = await setUp(size, { clock }, { length: 6 });
          const logAlone: TallyEvent[] = [];
          const server = createEnvironmentServer({ worlds: [tally({ log: logAlone, clock })] });
          const worldAlone = await connectPeer(server).createWorld({ length: 6 });
          const alone = await joinedPeers(server, worldAlone, size);
          const running = alone.map(() => false);
          const waiting = new Map<number, Promise<StepResult>>();
          /**
           * Results of first steps that were answered during a reset of other rows; the next
           * response reports them.
           */
          const begun = new Map<number, StepResult>();
          const isActing = (row: number) => waiting.has(row) && running[row] === true;
          const answers = async () => {
            await quiet();
            const results = new Map<number, StepResult>();
            for (const [row, step] of waiting) {
              if (!(await isBlocked(step))) {
                waiting.delete(row);
                results.set(row, await step);
              }
            }
            return results;
          };
          for (const command of plan) {
            if (command.kind !== "step") {
              const reset = rows.reset();
              begun.clear();
              let ready = alone.filter((_, row) => !waiting.has(row));
              while (ready.length > 0) {
                await Promise.all(ready.map((peer) => peer.reset()));
                const isLast = !alone.some((_, row) => isActing(row));
                const answered = await answers();
                // In the order of the answers.
                ready = isLast ? [] : [...answered.keys()].map((row) => alone[row] as Peer);
                for (const [row, result] of isLast ? answered : []) {
                  begun.set(row, result);
                }
              }
              await reset;
              running.fill(false);
              continue;
            }
            const sleep = tensor("int32", [size], Int32Array.from(command.sleeps));
            const begins = command.begins ?? undefined;
            const mask = begins && {
              begin_mask: tensor("bool", [size], Uint8Array.from(begins, Number)),
            };
            const step = rows.step({ ...add(...command.adds), sleep, ...mask });
            const play = (row: number) => {
              const actions = { add: command.adds[row] as number, sleep: command.sleeps[row] };
              waiting.set(row, (alone[row] as Peer).step(actions as Record<string, number>));
            };
            // First the acting rows step; then rows outside a sequence begin one.
            const isInSequence = running.includes(true) || begun.size > 0;
            const all = alone
              .map((_, row) => row)
              .filter((row) => !waiting.has(row) && !begun.has(row));
            all.filter((row) => running[row]).forEach(play);
            const results = new Map([...begun, ...(await answers())]);
            begun.clear();
            const mayBegin = (row: number) => !isInSequence || begins?.[row] !== false;
            all.filter((row) => !running[row] && mayBegin(row)).forEach(play);
            for (const [row, result] of await answers()) {
              results.set(row, result);
            }
            const received = await step;
            for (const row of alone.keys()) {
              const result = results.get(row);
              const shown = rowOf(received, row);
              if (result === undefined) {
                expect(shown).toMatchObject({
                  step_type: last,
                  terminated: false,
                  truncated: false,
                });
              } else {
                expect(shown).toEqual(told(result, running[row] === true));
                running[row] = result.state === "RUNNING";
              }
            }
          }
          expect(log).toEqual(logAlone);
        }),
        { numRuns: 50 },
      );
    },
  );
});

function told({ state, observations }: StepResult, wasRunning: boolean) {
  const running = wasRunning ? mid : first;
  return {
    ...observations,
    step_type: state === "RUNNING" ? running : last,
    terminated: state === "TERMINATED",
    truncated: state === "INTERRUPTED",
  };
}

function rowOf({ observations }: StepResult, row: number) {
  return Object.fromEntries(
    Object.entries(observations).map(([name, values]) => [name, (values as unknown[])[row]]),
  );
}
