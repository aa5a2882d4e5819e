// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, pack, t } from "@dm-env-rpc/tensor-codec";
import type { ProcessResponse, StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import {
  LoopTurns,
  type ManualTime,
  manualTime,
  RefusalCounts,
  ThreadShare,
} from "@dm-env-rpc/transport/internal";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { freeRunning } from "../clocks/free-running.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { realtime } from "../clocks/realtime.ts";
import { turns } from "../clocks/turns.ts";
import { wakeUp } from "../clocks/wake-up.ts";
import type { SequenceState } from "../definition/agent.ts";
import { optional } from "../definition/settings.ts";
import {
  defineWorld,
  type UntypedWorld,
  type UntypedWorldDefinition,
} from "../definition/world.ts";
import { defaultLimits } from "../host/limits.ts";
import type { Joined, SharedWorld } from "./hosted-world.ts";
import type { WorldEvent } from "./outside.ts";
import { errorResponse } from "./responses.ts";
import { EndBytes } from "./saved-ends.ts";
import type { SeatView, WorldView } from "./state.ts";
import { WorldHost } from "./world-host.ts";

const empty: StepRequest = { actions: [], requestedObservations: [] };
const all: StepRequest = { actions: [], requestedObservations: [1, 2] };

/** A world without sessions, with its responses. */
class Table {
  readonly time: ManualTime = manualTime();
  /** Time of the thread, which the worlds of tests pass themselves. */
  nowMs = 0;
  /** Tasks of later turns of the event loop. */
  readonly #tasks: (() => void)[] = [];
  readonly endBytes = new EndBytes(2 ** 20, new RefusalCounts());
  readonly events: WorldEvent[] = [];
  readonly world: SharedWorld;
  readonly seats: SeatView[] = [];
  /** Number of calls of `onLeft` for each agent. */
  readonly left = new Map<number, number>();
  /** The answers to each request, in the order of the requests. */
  readonly answers: unknown[][] = [];

  constructor(definition: UntypedWorldDefinition) {
    this.world = new WorldHost({
      name: "table",
      definition,
      settings: new Map(),
      randomSeed: () => 1n,
      share: new ThreadShare(
        new LoopTurns(
          () => this.nowMs,
          (task) => this.#tasks.push(task),
        ),
      ),
      endBytes: this.endBytes,
      time: this.time,
      limits: defaultLimits,
      checkObservations: "always",
      emit: (event) => void this.events.push(event),
    });
    this.world.create(this.request());
  }

  /** Runs the next turn of the event loop; returns false if it has no tasks. */
  turn(): boolean {
    const tasks = this.#tasks.splice(0);
    for (const task of tasks) {
      task();
    }
    return tasks.length > 0;
  }

  /** Returns the receiver of one request's answers. */
  request(): (answer: unknown) => void {
    const answers: unknown[] = [];
    this.answers.push(answers);
    return (answer) => void answers.push(answer);
  }

  /** @param key Key with which the agent can resume its seat. */
  join(key?: string): void {
    const answer = this.request();
    const agent = this.seats.length + 1;
    const onLeft = (): void => void this.left.set(agent, (this.left.get(agent) ?? 0) + 1);
    const joined = (result: Joined | DmEnvRpcError): void => {
      if (!isDmEnvRpcError(result)) {
        this.seats.push(result.seat);
      }
      answer(result);
    };
    this.world.join(new Map(), onLeft, joined, key);
  }

  seat(index: number): SeatView {
    const seat = this.seats[index];
    if (seat === undefined) {
      throw new Error(`no agent ${index} joined`);
    }
    return seat;
  }

  /** Steps an agent; the result is filled with the answers. */
  step(index: number, request = empty): unknown[] {
    this.world.step(this.seat(index), request, this.request());
    return this.answers.at(-1) ?? [];
  }

  /** Drops an agent's stream; returns true if its seat is held. */
  drop(index: number): boolean {
    let isHeld = false;
    this.world.drop(this.seat(index), () => {
      isHeld = true;
    });
    return isHeld;
  }

  reset(index: number): unknown[] {
    this.world.reset(this.seat(index), new Map(), this.request());
    return this.answers.at(-1) ?? [];
  }
}

function tableOf(agents: number, definition: Partial<UntypedWorldDefinition> = {}): Table {
  const table = new Table({ ...counting, ...definition });
  for (let agent = 0; agent < agents; agent++) {
    table.join();
  }
  return table;
}

/** A world whose sequences end for one agent every third tick, and for all every seventh. */
const counting: UntypedWorldDefinition = defineWorld({
  name: "counting",
  actions: {},
  observations: { tick: t.int32(), reward: t.float32() },
  create() {
    let tick = 0;
    return {
      start() {
        tick = 0;
      },
      step() {
        tick += 1;
      },
      status(agent) {
        if (tick >= 7) {
          return "terminated";
        }
        return tick > 0 && tick % 3 === agent % 3 ? "interrupted" : "running";
      },
      observe: { tick: () => tick, reward: () => 1 },
    };
  },
}) as unknown as UntypedWorldDefinition;

/**
 * Lets each observation of a tick take a millisecond of the table's time.
 *
 * @param status Replaces the status of the agents; receives the tick.
 */
function slowed(
  tableOfWorld: () => Table,
  status?: (tick: number) => SequenceState,
): UntypedWorldDefinition["create"] {
  return (context) => {
    const world = counting.create(context) as UntypedWorld;
    const { tick } = world.observe as unknown as { tick(): number };
    const slowTick = (): number => {
      tableOfWorld().nowMs += 0.5;
      return tick();
    };
    const slow = {
      ...world,
      ...(status && { status: () => status(tick()) }),
      observe: { ...world.observe, tick: slowTick },
    };
    return slow as unknown as UntypedWorld;
  };
}

function statesOf(answers: readonly unknown[]): unknown[] {
  return (answers as ProcessResponse[]).map((answer) =>
    answer.case === "error" ? answer.value.code : answer.case,
  );
}

/** Checks that the counters of a world match its seats. */
function checkCounters(state: WorldView): void {
  const seats = [...state.seats.values()];
  const states = seats.map((seat) => seat.state);
  const running = states.filter((of) => of.kind === "running");
  const ended = states.filter((of) => of.kind === "ended");
  expect([...state.running.agents]).toEqual(running);
  expect(state.waiting).toBe(running.filter(({ pending }) => pending !== undefined).length);
  expect(state.opening).toBe(states.filter(({ kind }) => kind === "opening").length);
  const excused = states.filter((of) => (of.kind === "idle" || of.kind === "ended") && of.excused);
  expect(state.excused).toBe(excused.length);
  const unsaved = (of: (typeof ended)[number]): boolean => of.saved === undefined;
  expect([...state.unsaved].filter((of) => !ended.includes(of))).toEqual([]);
  expect(ended.filter(unsaved).filter((of) => !state.unsaved.has(of))).toEqual([]);
  for (const of of state.reset?.awaited ?? []) {
    expect(ended).toContain(of);
  }
  for (const of of running) {
    expect(of.seat.state).toBe(of);
  }
  expect(states.map(({ kind }) => kind)).not.toContain("gone");
  if (state.sequence !== "open") {
    expect(running).toEqual([]);
  }
}

const moves = fc.array(
  fc.record({
    kind: fc.constantFrom(
      ...(["step", "step", "step", "step", "reset", "leave", "join"] as const),
      ...(["resetWorld", "resetWorldBy", "pass", "turn", "drain", "destroy"] as const),
    ),
    agent: fc.nat({ max: 8 }),
  }),
  { maxLength: 80, size: "max" },
);

const definitions = fc.record({
  clock: fc.constantFrom(
    lockstep({ deadlineMs: 50, onMissedDeadline: "default-action" }),
    lockstep({ deadlineMs: 50, onMissedDeadline: "leave" }),
    turns({ deadlineMs: 50 }),
    realtime({ ticksPerSecond: 30 }),
  ),
  onLeave: fc.constantFrom("continue" as const, "block" as const, "terminate" as const),
  onReset: fc.constantFrom("respawn" as const, "wait" as const),
  lateEntry: fc.constantFrom("now" as const, "next-sequence" as const),
  onDestroy: fc.constantFrom("refuse" as const, "drain" as const),
});

/** Plays one move; an agent with a request outstanding sends nothing else. */
function play(table: Table, kind: string, agent: number, busy: Set<number>): void {
  const { world } = table;
  const seat = table.seats[agent];
  const answer = table.request();
  const once = (response: unknown): void => {
    busy.delete(agent);
    answer(response);
  };
  switch (kind) {
    case "join":
      table.answers.pop();
      if (table.seats.length < 6) {
        table.join();
      }
      return;
    case "resetWorld":
      world.resetWorld([], new Map(), answer);
      return;
    case "pass":
      answer("passed");
      table.time.advance(60);
      return;
    case "turn":
      answer("turned");
      table.turn();
      return;
    case "drain":
      world.drain({ code: "UNAVAILABLE", message: "over" } as never, () => answer("drained"));
      return;
    case "destroy":
      world.destroy(answer);
      return;
  }
  if (seat === undefined || busy.has(agent)) {
    answer("not sent");
    return;
  }
  busy.add(agent);
  if (kind === "step") {
    world.step(seat, all, once);
  } else if (kind === "reset") {
    world.reset(seat, new Map(), once);
  } else if (kind === "leave") {
    world.leave(seat, once);
  } else {
    world.resetWorld([seat], new Map(), once);
  }
}

/** A table whose agents have taken their first step; observations take a millisecond each. */
function openTable(agents: number, definition: Partial<UntypedWorldDefinition> = {}): Table {
  const table: Table = tableOf(agents, { create: slowed(() => table), ...definition });
  for (let index = 0; index < agents; index++) {
    table.step(index);
  }
  return table;
}

/**
 * Steps every agent. Returns the ticks that the agents observe, or the code of an error, in the order of the answers.
 */
function stepAll(table: Table): unknown[] {
  const ticks: unknown[] = [];
  for (const seat of table.seats) {
    const answer = table.request();
    table.world.step(seat, all, (response) => {
      answer(response);
      const observed = response.case === "step" ? response.value.observations : [];
      const tick = observed.find(({ tensor }) => tensor.dtype === "int32");
      ticks.push(tick?.tensor.data[0] ?? statesOf([response])[0]); // Read at once, because it is borrowed.
    });
  }
  return ticks;
}

describe("the answers of a tick for many agents", () => {
  it("take several turns of the event loop, in which the world does not change", () => {
    const table = openTable(9);
    const ticks = stepAll(table);
    const left = table.request();
    table.world.leave(table.seat(8), left);
    expect(ticks).toEqual([1, 1, 1]);
    table.turn();
    expect(ticks).toEqual([1, 1, 1, 1, 1, 1]);
    expect(table.world.agentCount).toBe(9);
    table.turn();
    expect(ticks).toEqual(Array(9).fill(1));
    expect(table.world.agentCount).toBe(8);
    // Three sequences ended at the tick, each with the tick's reward of 1.
    expect(table.world.state).toMatchObject({ ticks: 1, returns: 3, returnSum: 3, waiting: 0 });
  });

  it("are sent before the next sequence of a continuous clock starts", () => {
    const table: Table = openTable(9, {
      clock: realtime({ ticksPerSecond: 10 }),
      create: slowed(
        () => table,
        (tick) => (tick < 2 ? "running" : "terminated"),
      ),
    });
    table.time.advance(100);
    const ticks = stepAll(table);
    table.time.advance(100);
    const progress = [[ticks.length, table.world.state.sequences]];
    while (table.turn()) {
      progress.push([ticks.length, table.world.state.sequences]);
    }
    expect(progress.slice(0, 3)).toEqual([
      [4, 1],
      [7, 1],
      [9, 2],
    ]);
    expect(ticks).toEqual(Array(9).fill(2));
    expect(table.world.state).toMatchObject({ sequence: "open", returns: 9, waiting: 0 });
  });

  it("are errors if the world is destroyed before they are sent", () => {
    const table = openTable(9);
    const ticks = stepAll(table);
    table.world.destroyNow();
    expect(ticks).toEqual([1, 1, 1, 5, 5, 5, 5, 5, 5]);
    const step = table.step(0);
    while (table.turn()) {
      // The turns in which the answers would have been sent.
    }
    expect(ticks).toHaveLength(9);
    expect(statesOf(step)).toEqual([5]);
  });

  it("are errors if an observation fails before they are sent", () => {
    const table: Table = openTable(9, {
      create: slowed(() => {
        if (table.nowMs === 2) {
          throw new Error("no more ink");
        }
        return table;
      }),
    });
    const ticks = stepAll(table);
    while (table.turn()) {
      // Until all turns are over.
    }
    expect(ticks).toEqual([1, 1, 1, 1, 13, 13, 13, 13, 13]);
  });

  it("are sent at once for fewer than eight agents", () => {
    const table = openTable(7);
    expect(stepAll(table)).toEqual(Array(7).fill(1));
  });
});

describe("the undelivered ends of many agents", () => {
  /** Runs a turn after another; returns the number of ends that are not saved yet, now and after each turn. */
  function unsavedByTurn({
    world,
    turn,
  }: {
    readonly world: SharedWorld;
    turn(): boolean;
  }): number[] {
    const sizes = [world.state.unsaved.size];
    while (turn()) {
      sizes.push(world.state.unsaved.size);
    }
    return sizes;
  }
  const turnsOf = (table: Table) =>
    unsavedByTurn({ world: table.world, turn: () => table.turn() }).filter((size) => size > 0);

  /** Lets the sequence of nine agents be interrupted after a tick. */
  function interrupted(): Table {
    const table: Table = openTable(9, {
      create: slowed(
        () => table,
        () => "running",
      ),
    });
    stepAll(table);
    while (table.turn()) {
      // Until every step is answered.
    }
    table.world.resetWorld([], new Map(), () => {});
    return table;
  }

  it("are saved in several turns of the event loop, before the world changes", () => {
    const table = interrupted();
    table.world.leave(table.seat(8), table.request());
    const left = table.answers.at(-1);
    expect([left, table.world.agentCount]).toEqual([[], 9]);
    expect(turnsOf(table)).toEqual([5, 2]);
    expect([left, table.world.agentCount]).toEqual([[undefined], 8]);
    expect(stepAll(table)).toEqual([...Array(8).fill(1), 9]);
    expect(table.endBytes.bytes).toBe(0);
  });

  it("are saved before the next sequence of a continuous clock starts", () => {
    const table: Table = openTable(9, {
      clock: realtime({ ticksPerSecond: 10 }),
      create: slowed(
        () => table,
        (tick) => (tick === 1 ? "terminated" : "running"),
      ),
    });
    while (table.turn()) {
      // Until every first step is answered.
    }
    table.time.advance(100);
    expect(table.world.state).toMatchObject({ sequence: "starting", sequences: 1 });
    expect(turnsOf(table)).toEqual([5, 2]);
    expect(table.world.state).toMatchObject({ sequence: "open", sequences: 2, ticks: 1 });
    expect(stepAll(table)).toEqual(Array(9).fill(1));
    expect(table.endBytes.bytes).toBe(0);
  });

  /** Ends the sequences of all agents but the first, on a clock on which each step is a tick. */
  function survived(failsMs = Number.POSITIVE_INFINITY): Table {
    const failing = (): Table => {
      if (table.nowMs >= failsMs) {
        throw new Error("no more ink");
      }
      return table;
    };
    const create: UntypedWorldDefinition["create"] = (context) => {
      const world = slowed(failing)(context) as UntypedWorld;
      return { ...world, status: (agent) => (agent === 1 ? "running" : "terminated") };
    };
    const table: Table = openTable(10, { clock: freeRunning(), create });
    table.step(0);
    while (table.turn()) {
      // Until the turn in which the step was answered is over.
    }
    return table;
  }

  it("are saved before the next tick", () => {
    const table = survived();
    const step = table.step(0);
    expect([step, table.world.state.ticks]).toEqual([[], 1]);
    expect(turnsOf(table)).toEqual([5, 2]);
    expect([statesOf(step), table.world.state.ticks]).toEqual([["step"], 2]);
    expect(stepAll(table).slice(1)).toEqual(Array(9).fill(1));
  });

  it("are saved before the steps of several agents, which remain one transition", () => {
    const table = survived();
    const rows = [0, 1].map((index) => ({
      seat: table.seat(index),
      request: empty,
      reply: table.request(),
    }));
    const [acting, ended] = table.answers.slice(-2);
    table.world.stepAll(rows, table.request());
    expect([acting, ended]).toEqual([[], []]);
    expect(turnsOf(table)).toEqual([5, 2]);
    expect([acting, ended].map((answers) => statesOf(answers ?? []))).toEqual([["step"], ["step"]]);
  });

  it("are saved at once between the steps of several agents", () => {
    const table: Table = openTable(20, {
      clock: freeRunning(),
      create: (context) => {
        const world = slowed(() => table)(context) as UntypedWorld;
        return { ...world, status: (agent) => (agent <= 3 ? "running" : "terminated") };
      },
    });
    const rows = [0, 1, 2].map((index) => ({
      seat: table.seat(index),
      request: empty,
      reply: table.request(),
    }));
    table.world.stepAll(rows, table.request());
    expect(table.world.state).toMatchObject({ ticks: 3 });
    while (table.turn()) {
      // Until every step is answered.
    }
    expect(table.answers.slice(-4).map(statesOf)).toEqual([["step"], ["step"], ["step"], []]);
  });

  it("are saved before the clock's deadline removes a late agent", () => {
    const table: Table = openTable(10, {
      clock: turns({ deadlineMs: 50, onMissedDeadline: "leave" }),
      create: (context) => {
        const world = slowed(() => table)(context) as UntypedWorld;
        return { ...world, status: (agent) => (agent <= 2 ? "running" : "terminated") };
      },
    });
    table.step(0);
    expect(table.world.state.unsaved.size).toBe(8);
    table.time.advance(50);
    expect(table.world.agentCount).toBe(10);
    expect(turnsOf(table)).toEqual([5, 2]);
    expect([table.world.agentCount, table.left]).toEqual([9, new Map([[2, 1]])]);
    for (let index = 2; index < 10; index++) {
      expect(statesOf(table.step(index, all))).toEqual(["step"]);
    }
    expect(table.endBytes.bytes).toBe(0);
  });

  it("have what their own agent requested, although another agent with the same specs requested less", () => {
    const size = 200_000;
    const table = tableOf(3, {
      observations: { map: t.uint8([size]), picture: t.uint8([size]) },
      clock: freeRunning(),
      create: () => ({
        step() {},
        status: (agent: number) => (agent < 3 ? "terminated" : "running"),
        observe: {
          map: (agent: number) => new Uint8Array(size).fill(agent),
          picture: (agent: number) => new Uint8Array(size).fill(10 * agent),
        },
      }),
    } as never);
    const requestOf = (...names: string[]): StepRequest => {
      const { entries } = table.seat(0).specs.observations;
      const requested = entries.filter(({ name }) => names.includes(name));
      return { actions: [], requestedObservations: requested.map(({ uid }) => uid) };
    };
    table.step(0, requestOf("map"));
    table.step(1, requestOf("picture"));
    for (let step = 0; step < 3; step++) {
      table.step(2, requestOf("map"));
    }
    // The observations of the first end take more than a quarter of the limit, so the second keeps only the picture.
    expect(table.endBytes.bytes).toBe(3 * size);
    const [answer] = table.step(1, requestOf("picture")) as ProcessResponse[];
    const observed = answer?.case === "step" ? answer.value.observations : [];
    expect(observed.map(({ tensor }) => tensor.data[0])).toEqual([20]);
  });

  it("are not saved for steps that deliver them, or for resets that discard them", () => {
    const table = interrupted();
    expect(statesOf(table.reset(0))).toEqual(["reset"]);
    expect(stepAll(table)).toEqual(Array(8).fill(1));
    expect(table.endBytes.bytes).toBe(0);
  });

  const waits: readonly [string, (table: Table, answer: (response: unknown) => void) => void][] = [
    ["a reset", (table, answer) => table.world.reset(table.seat(0), new Map(), answer)],
    [
      "the steps of several agents",
      (table, answer) => {
        const reply = (): void => answer("answered although it was refused");
        table.world.stepAll([{ seat: table.seat(0), request: empty, reply }], (error) =>
          answer(errorResponse(error)),
        );
      },
    ],
  ];

  describe.each(waits)("that %s waits for", (_what, send) => {
    it.each([1, 3])("end the wait with an error if an observation fails after %i ms", (failsMs) => {
      const table = survived(failsMs);
      send(table, table.request());
      while (table.turn()) {
        // Until all turns are over.
      }
      expect(statesOf(table.answers.at(-1) ?? [])).toEqual([13]);
    });

    it("end the wait with an error if the world is destroyed", () => {
      const table = survived();
      send(table, table.request());
      expect(table.answers.at(-1)).toEqual([]);
      table.world.destroyNow();
      while (table.turn()) {
        // Until all turns are over.
      }
      expect(statesOf(table.answers.at(-1) ?? [])).toEqual([5]);
    });
  });

  it("are dropped if the world is destroyed meanwhile", () => {
    const table = interrupted();
    table.world.leave(table.seat(8), table.request());
    expect(table.endBytes.bytes).toBeGreaterThan(0);
    table.world.destroyNow();
    expect(table.endBytes.bytes).toBe(0);
    expect(turnsOf(table)).toEqual([]);
    expect(table.answers.at(-1)).toEqual([undefined]);
  });
});

describe("the engine", () => {
  it("keeps its counters consistent with its seats, and answers each request once, for random moves", () => {
    fc.assert(
      fc.property(definitions, moves, fc.constantFrom(3, 9), (definition, played, agents) => {
        const table: Table = tableOf(agents, { ...definition, create: slowed(() => table) });
        const busy = new Set<number>();
        for (const { kind, agent } of played) {
          const { moves, missedDeadlines } = table.world.state;
          play(table, kind, agent, busy);
          expect(table.world.state.moves).toBeGreaterThanOrEqual(moves);
          expect(table.world.state.missedDeadlines).toBeGreaterThanOrEqual(missedDeadlines);
          checkCounters(table.world.state);
          for (const answers of table.answers) {
            expect(answers.length).toBeLessThanOrEqual(1);
          }
        }
        table.world.destroyNow();
        checkCounters(table.world.state);
        expect(table.endBytes.bytes).toBe(0);
        while (table.turn()) {
          // Until the transitions that have waited for answers are over.
        }
        expect(table.answers.map(({ length }) => length)).toEqual(table.answers.map(() => 1));
        expect([...table.left.values()]).toEqual(table.seats.map(() => 1));
        expect(table.time.timers).toBe(0);
      }),
      { numRuns: 100 },
    );
  });

  it("refuses a step or a reset of an agent with a step outstanding, and still answers that step", () => {
    const table = tableOf(2);
    const first = table.step(0);
    expect(statesOf(table.step(0))).toEqual([9]);
    expect(statesOf(table.reset(0))).toEqual([9]);
    expect(first).toEqual([]);
    table.step(1);
    expect(statesOf(first)).toEqual(["step"]);
    const second = table.step(0);
    expect(statesOf(table.step(0))).toEqual([9]);
    table.step(1);
    expect(statesOf(second)).toEqual(["step"]);
  });

  it("refuses a step or a reset of an agent whose reset waits", () => {
    const table = tableOf(2, { onReset: "wait" });
    table.step(0);
    table.step(1);
    const reset = table.reset(0);
    const outstanding = { value: { code: 9, message: expect.stringMatching(/reset outstanding/) } };
    expect(table.step(0)).toMatchObject([outstanding]);
    expect(table.reset(0)).toMatchObject([outstanding]);
    expect(reset).toEqual([]);
    table.world.leave(table.seat(1), () => {});
    expect(statesOf(reset)).toEqual(["reset"]);
  });

  it("refuses a step and a reset of an agent that has left", () => {
    const table = tableOf(2);
    table.world.leave(table.seat(0), () => {});
    expect(statesOf(table.step(0))).toEqual([9]);
    expect(statesOf(table.reset(0))).toEqual([9]);
    table.world.leave(table.seat(0), (result) => expect(result).toBeUndefined());
    expect(table.left.get(1)).toBe(1);
  });

  it("counts the sequences that agents ended, and adds up their rewards", () => {
    const table = tableOf(2);
    for (const index of [0, 1, 0, 1]) {
      table.step(index, all);
    }
    expect(table.world.state).toMatchObject({ ticks: 1, returns: 1, returnSum: 1 });
    table.step(1, all);
    expect(table.world.state).toMatchObject({ ticks: 2, returns: 2, returnSum: 3 });
  });

  it("counts the rewards of ticks in which an agent did not step", () => {
    const table = tableOf(2, { clock: realtime({ ticksPerSecond: 10 }) });
    table.step(0);
    table.step(1);
    table.time.advance(100);
    expect(table.world.state).toMatchObject({ ticks: 1, returns: 1, returnSum: 1 });
    table.time.advance(100);
    expect(table.world.state).toMatchObject({ ticks: 2, returns: 2, returnSum: 3 });
  });

  it("behaviour 75: counts every change that a spectator can see", () => {
    const grown = (table: Table, change: () => unknown): void => {
      const before = table.world.counts.changes;
      change();
      expect(table.world.counts.changes).toBeGreaterThan(before);
    };
    const table = tableOf(0, { clock: lockstep({ deadlineMs: 50 }) });
    for (let agent = 0; agent < 3; agent++) {
      grown(table, () => table.join());
    }
    for (const index of [0, 1, 2, 0, 1]) {
      grown(table, () => table.step(index));
    }
    grown(table, () => table.time.advance(50));
    for (const index of [2, 1, 0]) {
      grown(table, () => table.world.leave(table.seat(index), () => {}));
    }
    const late = tableOf(1, { clock: realtime({ ticksPerSecond: 10 }) });
    late.step(0);
    grown(late, () => late.time.advance(1000));
    expect(late.world.counts).toMatchObject({ steps: 1, missedDeadlines: 0 });
  });

  it("behaviour 75: shows the author's world from its first sequence to its end", () => {
    const table = tableOf(2);
    const shown = (): string => {
      let seen: unknown;
      table.world.look(undefined, (world) => {
        seen = world;
      });
      return `${seen === table.world.author} ${table.world.isRunning}`;
    };
    expect(shown()).toBe("false false");
    table.step(0);
    table.step(1);
    expect(shown()).toBe("true true");
    table.reset(0);
    table.reset(1);
    expect(shown()).toBe("true false");
    table.world.destroyNow();
    expect(shown()).toBe("false false");
  });

  it("ticks for as long as the clock requests ticks", () => {
    let ticks = 0;
    const table = tableOf(1, {
      clock: wakeUp({ action: "sleep" }),
      actions: { sleep: t.int32() },
      create: () => ({
        step() {
          ticks += 1;
        },
        observe: { tick: () => ticks, reward: () => 0 },
      }),
    } as never);
    table.step(0);
    const sleep = pack(20_000, { dtype: "int32" });
    const slept = table.step(0, {
      actions: [{ uid: 1, tensor: sleep }],
      requestedObservations: [],
    });
    expect(statesOf(slept)).toEqual(["step"]);
    expect(ticks).toBe(20_000);
  });

  it("behaviour 37: counts no missed deadline for an agent that the next sequence does not wait for", () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const table = tableOf(3, { clock });
    const late = (): unknown[] =>
      table.events.flatMap((event) => (event.kind === "deadline-missed" ? [event.agent] : []));
    table.step(1);
    table.time.advance(50);
    expect(late()).toEqual([1, 3]);
    table.step(2);
    table.reset(1);
    table.reset(2);
    table.step(1);
    table.time.advance(50);
    expect(late()).toEqual([1, 3, 3]);
  });

  it("behaviour 60: with the policy `wait`, the world waits without a timer for an agent that missed the first-step deadline", () => {
    const table = tableOf(2, { clock: lockstep({ deadlineMs: 50 }) });
    const first = table.step(0);
    table.time.advance(50);
    expect([table.world.state.missedDeadlines, table.time.timers]).toEqual([1, 0]);
    table.join();
    table.world.leave(table.seat(2), () => {});
    expect(first).toEqual([]);
    table.step(1);
    expect(statesOf(first)).toEqual(["step"]);
  });

  it("behaviour 66: counts skipped ticks, and stops its clock when it is destroyed", () => {
    const destroyed: string[] = [];
    const table: Table = tableOf(1, {
      clock: realtime({ ticksPerSecond: 10 }),
      create: () => ({
        step: () => table.time.advance(250),
        observe: { tick: () => 0, reward: () => 0 },
        destroy: () => void destroyed.push("destroyed"),
      }),
    } as never);
    table.step(0);
    const { changes } = table.world.counts;
    table.time.advance(100);
    expect(table.world.state).toMatchObject({ ticks: 1, missedTicks: 1 });
    // Spectators see the tick, and that another was skipped.
    expect(table.world.counts.changes).toBe(changes + 2);
    table.world.destroyNow();
    table.world.destroyNow();
    expect(table.time.timers).toBe(0);
    expect(table.events.filter(({ kind }) => kind === "gone")).toEqual([
      { kind: "gone", end: "destroyed" },
    ]);
    expect(destroyed).toEqual(["destroyed"]);
  });

  it("behaviour 42: does not count a reset between sequences as a move of the world", () => {
    const table = tableOf(1);
    const reset = table.request();
    table.world.resetWorld([], new Map(), reset);
    expect([table.answers.at(-1), table.world.state.moves]).toEqual([[undefined], 0]);
  });

  it("behaviour 24: answers a step once if its validation fails, and does not count the step", () => {
    const table = tableOf(2, {
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        validate() {
          throw new Error("no rules");
        },
      }),
    } as never);
    table.step(0);
    table.step(1);
    expect(statesOf(table.step(0))).toEqual([13]);
    expect([table.world.state.steps, table.world.state.gone?.code]).toEqual([2, "INTERNAL"]);
  });

  it("behaviour 24: answers the steps of several agents if the validation of one fails", () => {
    const table = tableOf(2, {
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        validate(agent: number) {
          if (agent === 2) {
            throw new Error("no rules");
          }
        },
      }),
    } as never);
    table.step(0);
    table.step(1);
    const refused: unknown[] = [];
    const answers: unknown[] = [];
    table.world.stepAll(
      [0, 1].map((index) => ({
        seat: table.seat(index),
        request: empty,
        reply: (answer) => void answers.push(answer),
      })),
      (error, index) => refused.push([error, index]),
    );
    expect(refused).toMatchObject([[{ code: "INTERNAL" }, 1]]);
    expect([answers, table.world.state.steps]).toEqual([[], 2]);
    expect(table.world.state.gone?.message).toMatch(/"validate" failed: no rules/);
  });

  it("behaviour 43: in real time, a straggler stays excused through sequences that it has not stepped in", () => {
    const table = tableOf(2, { clock: realtime({ ticksPerSecond: 10 }) });
    table.step(0);
    table.step(1);
    table.world.resetWorld([], new Map(), table.request());
    table.time.advance(10_000);
    expect(table.world.state).toMatchObject({ sequence: "open", excused: 0 });
    table.time.advance(100);
    expect(table.world.state).toMatchObject({ sequence: "open", excused: 1 });
    checkCounters(table.world.state);
  });

  it("behaviour 42: resets the world for a caller whose agent has left", () => {
    const table = tableOf(2);
    table.world.leave(table.seat(0), () => {});
    const resetBy: unknown[] = [];
    table.world.resetWorld([table.seat(0)], new Map(), (result) => resetBy.push(result));
    expect(resetBy).toEqual([undefined]);
  });

  it("behaviour 24: answers a step with an error if observing its undelivered end fails", () => {
    const fragile = defineWorld({
      name: "fragile",
      actions: {},
      observations: { view: t.int32() },
      clock: lockstep({ deadlineMs: 10, onMissedDeadline: "default-action" }),
      create() {
        let isOver = false;
        return {
          step() {
            isOver = true;
          },
          status: () => (isOver ? "terminated" : "running"),
          observe: {
            view() {
              if (isOver) {
                throw new Error("nothing to see");
              }
              return 1;
            },
          },
        };
      },
    }) as unknown as UntypedWorldDefinition;
    const table = tableOf(2, fragile);
    table.step(0);
    table.step(1);
    table.step(0);
    table.time.advance(10);
    const late = table.step(1, { actions: [], requestedObservations: [1] });
    expect(statesOf(late)).toEqual([13]);
    expect(table.events.filter(({ kind }) => kind === "failed")).toHaveLength(1);
    expect(table.world.state.gone?.message).toMatch(/"observe.view" failed: nothing to see/);
  });

  it("behaviour 24: answers a reset whose hook fails, and all other requests", () => {
    const table = tableOf(2, {
      resetSettings: { size: t.int32() },
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        reset() {
          throw new Error("no such map");
        },
      }),
    } as never);
    table.step(0);
    table.step(1);
    const step = table.step(0);
    const answer = table.request();
    const settings = new Map([["size", pack(3, { dtype: "int32" })]]);
    table.world.reset(table.seat(1), settings, answer);
    expect(statesOf(table.answers.at(-1) ?? [])).toEqual([13]);
    expect(statesOf(step)).toEqual([13]);
    expect(table.world.state.gone?.message).toMatch(/"reset" failed: no such map/);
  });

  it("behaviour 37: stops counting missed deadlines once the world fails while late agents are removed", () => {
    const table = tableOf(4, {
      clock: lockstep({ deadlineMs: 10, onMissedDeadline: "leave" }),
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        leave() {
          throw new Error("the door is stuck");
        },
      }),
    } as never);
    table.step(0);
    table.time.advance(10);
    expect(table.events.filter(({ kind }) => kind === "deadline-missed")).toHaveLength(1);
    expect(table.events.filter(({ kind }) => kind === "gone")).toHaveLength(1);
  });
});

describe("behaviour 77: an agent with a key, whose stream is lost", () => {
  const shutDown = new DmEnvRpcError("UNAVAILABLE", "the server is shutting down");
  const holdMs = 1000;

  /** Creates a world of agents with keys, except the last agent. */
  function keyed(agents: number, definition: Partial<UntypedWorldDefinition>): Table {
    const table = tableOf(0, definition);
    for (let agent = 1; agent < agents; agent++) {
      table.join(`key ${agent}`);
    }
    table.join();
    return table;
  }

  it("has its outstanding request answered once, whatever the request waited for", () => {
    for (const policy of ["block", "continue", "terminate"] as const) {
      const table = keyed(2, { onDrop: { holdMs, policy } });
      const first = table.step(0);
      expect(table.drop(0)).toBe(true);
      expect(statesOf(first)).toEqual([1]);
      table.world.drain(shutDown, () => {});
      expect(first).toHaveLength(1);
      expect([table.left.get(1), table.world.agentCount]).toEqual([1, 1]);
    }
  });

  it("leaves in later turns of the event loop if a server with many held seats closes", () => {
    const table: Table = keyed(1_001, {
      agents: { max: 2_000 },
      onDrop: { holdMs },
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        leave() {
          table.nowMs += 0.25;
        },
      }),
    } as never);
    for (let index = 0; index < 1_000; index++) {
      table.drop(index);
    }
    const drained: unknown[] = [];
    table.world.drain(shutDown, () => drained.push("drained"));
    const left = [table.left.size];
    while (table.turn()) {
      left.push(table.left.size);
    }
    expect(left.length).toBeGreaterThan(100);
    expect(left.map((count, turn) => count - (left[turn - 1] ?? 0)).every((n) => n < 10)).toBe(
      true,
    );
    expect([table.left.size, drained, table.time.timers]).toEqual([1_000, ["drained"], 0]);
    expect([...table.left.keys()].sort((a, b) => a - b)).toEqual([...table.left.keys()]);
  });

  it("leaves after the undelivered ends of many agents are saved, in later turns of the event loop", () => {
    const table: Table = keyed(10, {
      onDrop: { holdMs },
      create: slowed(
        () => table,
        () => "running",
      ),
    });
    for (let index = 0; index < 10; index++) {
      table.step(index);
    }
    table.drop(0);
    const drained: unknown[] = [];
    table.world.drain(shutDown, () => drained.push("drained"));
    const progress = (): number[] => [table.world.state.unsaved.size, drained.length];
    const turns = [progress()];
    while (turns.at(-1)?.[1] === 0 && table.turn()) {
      turns.push(progress());
    }
    expect(turns).toEqual([
      [6, 0],
      [3, 0],
      [0, 0],
      [0, 1],
    ]);
    expect(table.left).toEqual(new Map([[1, 1]]));
  });

  it("leaves only once if the world is destroyed before a drain has removed all held seats", () => {
    const table: Table = keyed(11, {
      onDrop: { holdMs },
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        leave() {
          table.nowMs += 0.5;
        },
      }),
    } as never);
    for (let index = 0; index < 10; index++) {
      table.drop(index);
    }
    const answers: unknown[] = [];
    table.world.drain(shutDown, () => answers.push("over"));
    expect(table.left.size).toBeLessThan(10);
    table.world.destroyNow();
    while (table.turn()) {
      // The turns in which the other agents would have been removed.
    }
    expect(answers).toEqual(["over"]);
    expect([...table.left.values()]).toEqual(Array(11).fill(1));
  });

  it("leaves at once if the server is closing", () => {
    const table = keyed(2, { onDrop: { holdMs, policy: "block" } });
    table.world.drain(shutDown, () => {});
    expect(table.drop(0)).toBe(false);
    expect([table.left.get(1), table.time.timers]).toEqual([1, 0]);
  });

  it("keeps its seat until it leaves", () => {
    const table = keyed(2, { onDrop: { holdMs } });
    const seats = (): boolean[] => ["key 1", "key 2"].map((key) => table.world.hasSeat(key));
    expect(seats()).toEqual([true, false]);
    table.drop(0);
    expect(seats()).toEqual([true, false]);
    table.time.advance(holdMs);
    expect(seats()).toEqual([false, false]);
    expect(table.left.get(1)).toBe(1);
  });

  it("gets an error on its old connection once a new connection has resumed the seat", () => {
    const table = keyed(2, { onDrop: { holdMs } });
    table.join("key 1");
    expect(table.left).toEqual(new Map([[1, 1]]));
    expect(statesOf(table.step(0))).toEqual([10]);
  });

  it("leaves the sequence, which continues, also in a world without `exit`", () => {
    const table = keyed(2, { onDrop: { holdMs } });
    table.step(0);
    table.step(1);
    table.drop(0);
    expect(statesOf(table.step(1))).toEqual(["step"]);
    expect(table.world.state.gone).toBeUndefined();
  });

  it("does not change the undelivered ends of other agents when it is removed", () => {
    let view = 1;
    const shrinking = defineWorld({
      name: "shrinking",
      actions: {},
      observations: { view: t.int32() },
      clock: freeRunning(),
      onDrop: { holdMs },
      create: () => ({
        step() {},
        exit() {
          view = 0;
        },
        status: (agent) => (agent === 2 ? "terminated" : "running"),
        observe: { view: () => view },
      }),
    }) as unknown as UntypedWorldDefinition;
    const table = keyed(3, shrinking);
    for (const index of [0, 1, 2, 0]) {
      table.step(index);
    }
    table.drop(0);
    const [ended] = table.step(1, { actions: [], requestedObservations: [1] }) as ProcessResponse[];
    const seen = ended?.case === "step" ? ended.value.observations : [];
    expect(seen.map(({ tensor }) => tensor.data)).toEqual([Int32Array.of(1)]);
  });

  it("fails the world if `exit` throws, and the error names `exit`", () => {
    const table = keyed(2, {
      onDrop: { holdMs },
      create: () => ({
        step() {},
        observe: { tick: () => 0, reward: () => 0 },
        exit() {
          throw new Error("no way out");
        },
      }),
    } as never);
    table.step(0);
    table.step(1);
    table.drop(0);
    expect(table.world.state.gone?.message).toMatch(/"exit" failed: no way out/);
  });

  it("does not delay a reset of the world", () => {
    const table = keyed(2, { onDrop: { holdMs } });
    table.step(0);
    table.step(1);
    const reset = table.request();
    table.world.resetWorld([], new Map(), reset);
    table.step(1);
    expect(table.answers.at(-2)).toEqual([]);
    table.drop(0);
    expect(table.answers.at(-2)).toEqual([undefined]);
  });

  it("once it is back, is waited for until the deadline of first steps", () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const table = keyed(2, { clock, onDrop: { holdMs, policy: "block" } });
    table.drop(0);
    const first = table.step(1);
    table.time.advance(100);
    expect(first).toEqual([]);
    table.join("key 1");
    table.time.advance(49);
    expect(first).toEqual([]);
    table.time.advance(1);
    expect(statesOf(first)).toEqual(["step"]);
  });

  it("has the specs of the reset that was outstanding when its stream was lost", () => {
    const table = keyed(2, {
      onReset: "wait",
      onDrop: { holdMs, policy: "block" },
      joinSettings: { size: optional(t.int32()) },
      resetSettings: { size: t.int32() },
      observations: ({ join }: { readonly join: { readonly size?: number } }) => ({
        view: t.int32([join.size ?? 1]),
      }),
      create: () => ({ step() {}, observe: { view: () => new Int32Array(3) } }),
    } as never);
    table.step(0);
    table.step(1);
    const reset = table.request();
    table.world.reset(table.seat(0), new Map([["size", pack(3, { dtype: "int32" })]]), reset);
    table.drop(0);
    expect(statesOf(table.answers.at(-1) ?? [])).toEqual([1]);
    table.join("key 1");
    expect(table.seat(2).specs.observations.entries.map(({ spec }) => spec.shape)).toEqual([[3]]);
  });
});

describe("the events of a world", () => {
  const kindsOf = ({ events }: Table): string[] =>
    events.map((event) => (event.kind === "gone" ? `gone: ${event.end}` : event.kind));

  it("report that it is empty once the last agent has left", () => {
    const table = tableOf(2);
    table.world.leave(table.seat(0), () => {});
    expect(kindsOf(table)).not.toContain("emptied");
    table.world.leave(table.seat(1), () => {});
    expect(kindsOf(table).slice(-2)).toEqual(["agent-left", "emptied"]);
  });

  it("report `failed` once, before `gone`", () => {
    const table = tableOf(1, {
      create: () => ({
        step() {
          throw new Error("too much");
        },
        observe: { tick: () => 0, reward: () => 0 },
        destroy() {
          throw new Error("no end");
        },
      }),
    } as never);
    table.step(0);
    table.step(0);
    table.world.destroyNow();
    expect(kindsOf(table).slice(-3)).toEqual(["failed", "agent-left", "gone: failed"]);
    expect(kindsOf(table)).toHaveLength(5);
  });

  it("report that `create` refused the settings", () => {
    const table = tableOf(0, {
      create: () => {
        throw new DmEnvRpcError("INVALID_ARGUMENT", "no such map");
      },
    } as never);
    expect(kindsOf(table)).toEqual(["gone: refused"]);
    expect(table.answers[0]).toMatchObject([{ code: "INVALID_ARGUMENT", message: "no such map" }]);
  });
});

it("closing cancels the first-step deadline and refuses outstanding first steps", () => {
  const table = tableOf(2, { clock: lockstep({ deadlineMs: 50 }) });
  const first = table.step(0);
  expect(table.time.timers).toBe(1);
  table.world.drain(new DmEnvRpcError("UNAVAILABLE", "the server is shutting down"), () => {});
  expect([statesOf(first), table.time.timers]).toEqual([[14], 0]);
});

it("behaviour 30: `destroyWhenEmpty` destroys a world when its last agent leaves, or at once if it is empty", () => {
  const empty = tableOf(0);
  empty.world.destroyWhenEmpty();
  expect(empty.world.state.gone?.code).toBe("NOT_FOUND");
  const table = tableOf(1);
  table.world.destroyWhenEmpty();
  expect(table.world.state.gone).toBeUndefined();
  table.join();
  expect(table.answers.at(-1)).toMatchObject([{ code: "FAILED_PRECONDITION" }]);
  table.world.leave(table.seat(0), () => {});
  expect(table.world.state.gone?.code).toBe("NOT_FOUND");
});

it("behaviour 67: later requests of an agent that left while it waited receive the same error", () => {
  const table = tableOf(2);
  const first = table.step(0);
  table.world.leaveIfWaiting(table.seat(0));
  expect(statesOf(first)).toEqual([1]);
  expect(statesOf(table.step(0))).toEqual([1]);
});
