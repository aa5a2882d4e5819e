// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { isDmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import {
  LoopTurns,
  manualTime,
  RefusalCounts,
  ThreadShare,
  turnKeyOf,
} from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { defineWorld, type UntypedWorldDefinition } from "../definition/world.ts";
import { EndBytes } from "../engine/saved-ends.ts";
import { WorldHost } from "../engine/world-host.ts";
import { defaultLimits } from "../host/limits.ts";
import { joinRows } from "./join-rows.ts";
import { JoinTurns } from "./join-turns.ts";

/** A world without sessions, in which each join takes a millisecond; the test runs the turns of the event loop. */
function setUp({ different = false, isAsync = false, max = 1_000 } = {}) {
  let nowMs = 0;
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => nowMs,
      (task) => tasks.push(task),
    ),
  );
  const definition = defineWorld({
    name: "hall",
    actions: {},
    agents: { max },
    observations: () => (different && nowMs > 2 ? { late: t.int32() } : { seen: t.int32() }),
    create: () => ({
      join: () => {
        nowMs += 0.5;
        return isAsync ? Promise.resolve() : undefined;
      },
      step() {},
      observe: { seen: () => 0, late: () => 0 },
    }),
  });
  const world = new WorldHost({
    name: "hall",
    definition: definition as unknown as UntypedWorldDefinition,
    settings: new Map(),
    randomSeed: () => 1n,
    share,
    endBytes: new EndBytes(defaultLimits.maxUndeliveredEndBytes, new RefusalCounts()),
    time: manualTime(),
    limits: defaultLimits,
    checkObservations: "always",
    emit: () => {},
  });
  world.create(() => {});
  const answers: unknown[] = [];
  const left: unknown[] = [];
  const { maxElements } = defaultLimits;
  const joinTurns = new JoinTurns(share);
  const join = (count: number, address = "10.0.0.1:1", isWanted = () => true): void => {
    const key = turnKeyOf(address);
    joinTurns.enter(world, key, (over) =>
      joinRows(
        world,
        new Map(),
        { count, maxElements, share, key, isWanted },
        (reason) => left.push(reason),
        (result) => {
          over();
          answers.push(isDmEnvRpcError(result) ? result.message : result.seats.length);
        },
      ),
    );
  };
  const turn = (): void => {
    for (const task of tasks.splice(0)) {
      task();
    }
  };
  return { world, join, turn, tasks, answers, left };
}

describe("behaviour 73: a join with many seats", () => {
  it("takes several turns of the event loop, and is answered once all have joined", () => {
    const { world, join, turn, answers, left } = setUp();
    join(9);
    const counts = [world.agentCount];
    while (answers.length === 0) {
      turn();
      counts.push(world.agentCount);
    }
    expect(counts).toEqual([4, 7, 9]);
    expect([answers, left]).toEqual([[9], []]);
  });

  it("is answered with an error if a seat is lost meanwhile, and joins none", () => {
    const { world, join, turn, tasks, answers, left } = setUp();
    join(9);
    const [first] = world.state.seats.values();
    if (first === undefined) {
      throw new Error("expected a seat, received none");
    }
    world.leave(first as never, () => {});
    while (tasks.length > 0) {
      turn();
    }
    expect(answers).toEqual([expect.stringMatching(/a seat was left/)]);
    expect([world.agentCount, left]).toEqual([0, []]);
  });

  it("is refused at the first seat with different specs", () => {
    const { world, join, turn, tasks, answers } = setUp({ different: true });
    join(9);
    while (tasks.length > 0) {
      turn();
    }
    expect(answers).toEqual([expect.stringMatching(/need the same specs/)]);
    expect(world.agentCount).toBe(0);
    expect(world.state.lastAgent).toBe(6);
  });

  it.each([
    ["at once", false],
    ["in a promise", true],
  ])(
    "has all its seats although another join wants them at the same time, if the world joins %s",
    async (_how, isAsync) => {
      const { world, join, turn, answers, left } = setUp({ isAsync, max: 10 });
      join(9);
      join(8, "10.0.0.2");
      join(1, "10.0.0.3");
      for (let i = 0; answers.length < 3 && i < 100; i++) {
        turn();
        await setImmediate();
      }
      expect(answers).toEqual([9, expect.stringMatching(/room for 10/), 1]);
      expect([world.agentCount, left]).toEqual([10, []]);
    },
  );

  it("stops once its stream has closed, and joins none", () => {
    const { world, join, turn, tasks, answers, left } = setUp();
    let isOpen = true;
    join(9, "10.0.0.1", () => isOpen);
    isOpen = false;
    expect(world.agentCount).toBe(4);
    while (tasks.length > 0) {
      turn();
    }
    expect(answers).toEqual([expect.stringMatching(/the stream closed/)]);
    expect([world.agentCount, world.state.lastAgent, left]).toEqual([0, 4, []]);
  });
});
