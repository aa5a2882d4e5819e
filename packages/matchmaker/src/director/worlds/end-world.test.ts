// SPDX-License-Identifier: Apache-2.0
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { DestroyMode } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, playedMatch } from "../../../testing/fleet.ts";

describe("a world that ends", () => {
  it("is destroyed with one call, however long the call takes", async () => {
    await using match = await playedMatch();
    const { fleet, server, world } = match;
    const release = fleet.servers.hold("destroy");
    world.tickets.clear();
    for (let tick = 0; tick < 3; tick++) {
      fleet.time.advance(1_000);
      await fleet.report(server);
      await fleet.matchmaker.tick();
    }
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
    expect(eventsOf(fleet, "world-destroyed")).toEqual([]);
    release();
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toHaveLength(1);
    expect(eventsOf(fleet, "world-destroyed")).toEqual([
      { kind: "world-destroyed", serverId: "a", worldName: "gridworld-1" },
    ]);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("is destroyed again after a cooldown if the call fails", async () => {
    await using match = await playedMatch({}, { cooldownMs: 4_000 });
    const { fleet, server, world } = match;
    const error = new Error("not now");
    server.destroyError = error;
    world.tickets.clear();
    await fleet.pass(2_000);
    const failure = { kind: "world-failed", serverId: "a", what: "destroy", error };
    expect(eventsOf(fleet, "world-failed")).toEqual([failure]);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 1, matches: 1 });
    await fleet.pass(4_000);
    expect(eventsOf(fleet, "world-failed")).toEqual([failure, failure]);
    expect(eventsOf(fleet, "world-destroyed")).toEqual([]);
  });

  it("counts as destroyed if its server no longer has it", async () => {
    await using match = await playedMatch();
    const { fleet, server, world } = match;
    server.destroyError = new DmEnvRpcError("NOT_FOUND", "there is no such world");
    world.tickets.clear();
    await fleet.pass(2_000);
    expect(eventsOf(fleet, "world-failed")).toEqual([]);
    expect(eventsOf(fleet, "world-destroyed")).toHaveLength(1);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("completes the tickets of the agents inside, and returns the others to their pools", async () => {
    const forced = { destroyAfterSequences: 1, destroyMode: DestroyMode.FORCE };
    const options = { ticketLeaseMs: 2_000, awayMs: 20_000, joined: 1 };
    await using match = await playedMatch(forced, options);
    const { fleet, world, ids } = match;
    await fleet.pass(3_000);
    expect(await fleet.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    world.sequences = 2;
    await fleet.pass(2_000);
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    const { error } = await fleet.ticket(ids[1] ?? "");
    expect(error).toMatchObject({
      code: Code.Aborted,
      message: "the world was destroyed before the seat was taken",
    });
    // The lease of the waiting ticket ran out while the ticket had a seat.
    await fleet.pass(15_000, 5_000);
    expect(fleet.matchmaker.counts().tickets).toMatchObject({ waiting: 1, failed: 0 });
  });

  it("is gone once its server has deregistered, even while its destroy is pending", async () => {
    await using match = await playedMatch();
    const { fleet, world } = match;
    const release = fleet.servers.hold("destroy");
    world.tickets.clear();
    fleet.time.advance(1_000);
    await fleet.reportAll();
    await fleet.matchmaker.tick();
    await fleet.matchmaker.tick();
    await fleet.registry.deregisterServer({ serverId: "a" });
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
    expect(fleet.matchmaker.counts().worlds).toBe(0);
    release();
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toHaveLength(1);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });
});

describe("a reset", () => {
  it("is reported once it is done, and not repeated while it is pending", async () => {
    await using match = await playedMatch({ resetAfterSequences: 1 });
    const { fleet, server, world } = match;
    const release = fleet.servers.hold("reset");
    for (let sequences = 2; sequences < 8; sequences += 2) {
      world.sequences = sequences;
      fleet.time.advance(1_000);
      await fleet.report(server);
      await fleet.matchmaker.tick();
    }
    expect(callsOf(fleet, "reset")).toEqual(["reset a/gridworld-1"]);
    expect(eventsOf(fleet, "world-reset")).toEqual([]);
    release();
    await fleet.matchmaker.settled();
    expect(eventsOf(fleet, "world-reset")).toEqual([
      { kind: "world-reset", serverId: "a", worldName: "gridworld-1" },
    ]);
    expect(eventsOf(fleet, "world-failed")).toEqual([]);
  });

  it("that fails is reported, and not repeated", async () => {
    await using match = await playedMatch({ resetEvery: durationFromMs(60_000) });
    const { fleet } = match;
    const error = new Error("not now");
    fleet.servers.pace = async (what) => {
      if (what === "reset") {
        throw error;
      }
    };
    await fleet.pass(60_000, 5_000);
    expect(eventsOf(fleet, "world-failed")).toEqual([
      { kind: "world-failed", serverId: "a", what: "reset", error },
    ]);
    await fleet.pass(30_000, 5_000);
    expect(callsOf(fleet, "reset")).toHaveLength(1);
    expect(eventsOf(fleet, "world-reset")).toEqual([]);
  });
});
