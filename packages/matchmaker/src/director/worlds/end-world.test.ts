// SPDX-License-Identifier: Apache-2.0
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { DestroyMode } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, playedMatch } from "../../../testing/house.ts";

describe("a world that ends", () => {
  it("is destroyed with one call, however long the call takes", async () => {
    await using match = await playedMatch();
    const { house, server, world } = match;
    const release = house.servers.hold("destroy");
    world.tickets.clear();
    for (let tick = 0; tick < 3; tick++) {
      house.time.advance(1_000);
      await house.report(server);
      await house.matchmaker.tick();
    }
    expect(callsOf(house, "destroy")).toEqual(["destroy a/gridworld-1"]);
    expect(eventsOf(house, "world-destroyed")).toEqual([]);
    release();
    await house.settle();
    expect(callsOf(house, "destroy")).toHaveLength(1);
    expect(eventsOf(house, "world-destroyed")).toEqual([
      { kind: "world-destroyed", serverId: "a", worldName: "gridworld-1" },
    ]);
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("is destroyed again after a cooldown if the call fails", async () => {
    await using match = await playedMatch({}, { cooldownMs: 4_000 });
    const { house, server, world } = match;
    const error = new Error("not now");
    server.destroyError = error;
    world.tickets.clear();
    await house.pass(2_000);
    const failure = { kind: "world-failed", serverId: "a", what: "destroy", error };
    expect(eventsOf(house, "world-failed")).toEqual([failure]);
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 1, matches: 1 });
    await house.pass(4_000);
    expect(eventsOf(house, "world-failed")).toEqual([failure, failure]);
    expect(eventsOf(house, "world-destroyed")).toEqual([]);
  });

  it("counts as destroyed if its server no longer has it", async () => {
    await using match = await playedMatch();
    const { house, server, world } = match;
    server.destroyError = new DmEnvRpcError("NOT_FOUND", "there is no such world");
    world.tickets.clear();
    await house.pass(2_000);
    expect(eventsOf(house, "world-failed")).toEqual([]);
    expect(eventsOf(house, "world-destroyed")).toHaveLength(1);
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("completes the tickets of the agents inside, and returns the others to their pools", async () => {
    const forced = { destroyAfterSequences: 1, destroyMode: DestroyMode.FORCE };
    const options = { ticketLeaseMs: 2_000, awayMs: 20_000, joined: 1 };
    await using match = await playedMatch(forced, options);
    const { house, world, ids } = match;
    await house.pass(3_000);
    expect(await house.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    world.sequences = 2;
    await house.pass(2_000);
    expect(await house.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    const { error } = await house.ticket(ids[1] ?? "");
    expect(error).toMatchObject({
      code: Code.Aborted,
      message: "the world was destroyed before the seat was taken",
    });
    // The lease of the waiting ticket ran out while the ticket had a seat.
    await house.pass(15_000, 5_000);
    expect(house.matchmaker.counts().tickets).toMatchObject({ waiting: 1, failed: 0 });
  });

  it("may lose its server while it is destroyed", async () => {
    await using match = await playedMatch();
    const { house, world } = match;
    const release = house.servers.hold("destroy");
    world.tickets.clear();
    house.time.advance(1_000);
    await house.reportAll();
    await house.matchmaker.tick();
    await house.matchmaker.tick();
    await house.registry.deregisterServer({ serverId: "a" });
    house.time.advance(1_000);
    await house.matchmaker.tick();
    expect(house.matchmaker.counts().worlds).toBe(0);
    release();
    await house.settle();
    expect(callsOf(house, "destroy")).toHaveLength(1);
    expect(eventsOf(house, "step-failed")).toEqual([]);
  });
});

describe("a reset", () => {
  it("is reported once it is done, and not repeated while it is pending", async () => {
    await using match = await playedMatch({ resetAfterSequences: 1 });
    const { house, server, world } = match;
    const release = house.servers.hold("reset");
    for (let sequences = 2; sequences < 8; sequences += 2) {
      world.sequences = sequences;
      house.time.advance(1_000);
      await house.report(server);
      await house.matchmaker.tick();
    }
    expect(callsOf(house, "reset")).toEqual(["reset a/gridworld-1"]);
    expect(eventsOf(house, "world-reset")).toEqual([]);
    release();
    await house.matchmaker.settled();
    expect(eventsOf(house, "world-reset")).toEqual([
      { kind: "world-reset", serverId: "a", worldName: "gridworld-1" },
    ]);
    expect(eventsOf(house, "world-failed")).toEqual([]);
  });

  it("that fails is reported, and not repeated", async () => {
    await using match = await playedMatch({ resetEvery: durationFromMs(60_000) });
    const { house } = match;
    const error = new Error("not now");
    house.servers.pace = async (what) => {
      if (what === "reset") {
        throw error;
      }
    };
    await house.pass(60_000, 5_000);
    expect(eventsOf(house, "world-failed")).toEqual([
      { kind: "world-failed", serverId: "a", what: "reset", error },
    ]);
    await house.pass(30_000, 5_000);
    expect(callsOf(house, "reset")).toHaveLength(1);
    expect(eventsOf(house, "world-reset")).toEqual([]);
  });
});
