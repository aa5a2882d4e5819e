// SPDX-License-Identifier: Apache-2.0
import { DestroyMode, LostPolicy } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { eventsOf, Fleet, playedMatch, profile } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";
import { hasEnded } from "../model/model.ts";
import { memoryStore } from "../store/memory-store.ts";
import { type Store, StoreError } from "../store/store.ts";

describe("one ticket-ended event is emitted for each ticket that ends", () => {
  const ended = (ticketId: string | undefined, state: string, reason?: string) => ({
    kind: "ticket-ended",
    ticketId,
    state,
    reason,
  });

  it("because its world was destroyed", async () => {
    const forced = { destroyAfterSequences: 1, destroyMode: DestroyMode.FORCE };
    await using match = await playedMatch(forced, { joined: 1 });
    const { fleet, world, ids } = match;
    world.sequences = 2;
    await fleet.pass(2_000);
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    expect(eventsOf(fleet, "ticket-ended")).toEqual([ended(ids[0], "completed")]);
  });

  it("because its server no longer has its world", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ lostPolicy: LostPolicy.FAIL })] });
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.join(ids[0] ?? "");
    await fleet.pass(1_000);
    server.worlds.clear();
    await fleet.pass(1_000);
    const reason = 'the world "gridworld-1" ended on its server before the seat was taken';
    expect(eventsOf(fleet, "ticket-ended")).toEqual([
      ended(ids[0], "completed"),
      ended(ids[1], "failed", reason),
    ]);
  });

  it("because the settings of its world were refused", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("a");
    server.createErrors.push(new DmEnvRpcError("INVALID_ARGUMENT", "there is no such map"));
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const reason =
      'the world settings of profile "any" were refused: there is no such map; choose another profile, or tell the operator of the matchmaker';
    expect(eventsOf(fleet, "ticket-ended")).toEqual(ids.map((id) => ended(id, "failed", reason)));
  });

  it("because its world could not be created in maxAttempts attempts", async () => {
    await using fleet = await Fleet.open({ settings: { maxAttempts: 2, cooldownMs: 1_000 } });
    const server = await fleet.serve("a");
    const fault = () => new DmEnvRpcError("INTERNAL", "the world did not start");
    server.createErrors.push(fault(), fault());
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(eventsOf(fleet, "ticket-ended")).toEqual([]);
    await fleet.pass(2_000);
    const reason =
      'a world for profile "any" could not be created in 2 attempts: the world did not start; create another ticket later';
    expect(eventsOf(fleet, "ticket-ended")).toEqual(ids.map((id) => ended(id, "failed", reason)));
  });

  it("because its server deregistered", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ lostPolicy: LostPolicy.FAIL })] });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.registry.deregisterServer({ serverId: "a" });
    await fleet.settle();
    fleet.time.advance(500);
    await fleet.settle();
    const reason = "the server of the match is gone, and its worlds with it";
    expect(eventsOf(fleet, "ticket-ended")).toEqual(ids.map((id) => ended(id, "failed", reason)));
  });

  /** Opens a fleet whose store loses the responses of commits that end tickets. */
  async function losing() {
    const time = manualTime(startMs);
    const inner = memoryStore({ time });
    /** Fates of the next commits that end tickets. */
    const faults: ("made" | "not made")[] = [];
    const store: Store = {
      ...inner,
      async commit(changes, options) {
        const ends = changes.some(
          ({ kind, value }) => kind === "ticket" && value !== undefined && hasEnded(value),
        );
        const fault = ends ? faults.shift() : undefined;
        if (fault !== "not made") {
          const result = await inner.commit(changes, options);
          if (fault === undefined) {
            return result;
          }
        }
        throw new StoreError("unavailable", "the response was lost");
      },
    };
    const settings = { maxWaitMs: 5_000, tickMs: 100 };
    const fleet = await Fleet.open({ time, store, settings });
    return { fleet, faults, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
  }

  it.each([
    ["was made", ["made"]],
    ["was not made", ["not made"]],
    ["was not made in two attempts, then was made", ["not made", "not made", "made"]],
  ] as const)("when the response of its commit was lost, and the commit %s", async (_, faults) => {
    await using scene = await losing();
    const { fleet } = scene;
    const ids = await fleet.tickets(1);
    scene.faults.push(...faults);
    await fleet.pass(6_000);
    await fleet.pass(2_000, 100);
    expect(scene.faults).toEqual([]);
    expect(await fleet.states(ids)).toEqual(["FAILED"]);
    expect(eventsOf(fleet, "ticket-ended")).toMatchObject([
      { ticketId: ids[0], state: "failed", reason: expect.stringContaining("maxWaitMs") },
    ]);
  });

  it.each([
    ["was made", "made"],
    ["was not made", "not made"],
  ] as const)("when the response of its cancel was lost, and the cancel %s", async (_, fault) => {
    await using scene = await losing();
    const { fleet } = scene;
    const [id = ""] = await fleet.tickets(1);
    scene.faults.push(fault);
    await expect(fleet.frontend.cancelTicket({ ticketId: id })).rejects.toThrow(/cannot reach/);
    fleet.time.advance(10);
    await fleet.frontend.cancelTicket({ ticketId: id });
    await fleet.pass(1_000);
    expect(await fleet.states([id])).toEqual(["CANCELLED"]);
    expect(eventsOf(fleet, "ticket-ended")).toEqual([ended(id, "cancelled")]);
  });
});
