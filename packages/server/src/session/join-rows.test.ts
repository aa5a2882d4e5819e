// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime, RefusalCounts, ThreadShare } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { defineWorld, type UntypedWorldDefinition } from "../definition/world.ts";
import { EndBytes } from "../engine/saved-ends.ts";
import { WorldHost } from "../engine/world-host.ts";
import { defaultLimits } from "../host/limits.ts";
import { joinRows } from "./join-rows.ts";

/** A world without sessions, in which each join takes a millisecond; the test runs the turns of the event loop. */
function setUp(different = false) {
  let nowMs = 0;
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    () => nowMs,
    (task) => tasks.push(task),
  );
  const definition = defineWorld({
    name: "hall",
    actions: {},
    observations: () => (different && nowMs > 4 ? { late: t.int32() } : { seen: t.int32() }),
    create: () => ({
      join: () => {
        nowMs += 1;
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
  const join = (count: number): void =>
    joinRows(
      world,
      new Map(),
      { count, maxElements: defaultLimits.maxElements, share, network: "10.0.0.1" },
      (reason) => left.push(reason),
      (result) => answers.push(isDmEnvRpcError(result) ? result.message : result.seats.length),
    );
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
    const { world, join, turn, tasks, answers } = setUp(true);
    join(9);
    while (tasks.length > 0) {
      turn();
    }
    expect(answers).toEqual([expect.stringMatching(/need the same specs/)]);
    expect(world.agentCount).toBe(0);
    expect(world.state.lastAgent).toBe(6);
  });
});
