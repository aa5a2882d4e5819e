// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { DestroyMode, WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { House, profile } from "../../../testing/house.ts";
import type { SimulatedWorld } from "../../../testing/simulated-servers.ts";
import type { MatchmakerEvent } from "../../events.ts";
import type { MatchmakerSettings } from "../../settings.ts";

/** A match of two on a server, the first `joined` of whose agents are in the world. */
async function matched(
  policy: MessageInitShape<typeof WorldPolicySchema>,
  settings: Partial<MatchmakerSettings> = {},
  joined = 2,
) {
  const worldPolicy = create(WorldPolicySchema, policy);
  const house = await House.open({ profiles: [profile({ worldPolicy })], settings });
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  for (const id of ids.slice(0, joined)) {
    await house.join(id);
  }
  await house.pass(1_000);
  const world = server.worlds.get("gridworld-1") as SimulatedWorld;
  return { house, server, world, ids, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

const eventsOf = ({ events }: House, kind: MatchmakerEvent["kind"]): MatchmakerEvent[] =>
  events.filter((event) => event.kind === kind);

const callsOf = ({ servers }: House, what: string): string[] =>
  servers.calls.filter((call) => call.startsWith(what));

describe("a world that ends", () => {
  it("is destroyed with one call, however long the call takes", async () => {
    await using match = await matched({});
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
    await using match = await matched({}, { cooldownMs: 4_000 });
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
    await using match = await matched({});
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
    const settings = { ticketLeaseMs: 2_000, awayMs: 20_000 };
    await using match = await matched(forced, settings, 1);
    const { house, world, ids } = match;
    await house.pass(3_000);
    expect(await house.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    world.sequences = 2;
    await house.pass(2_000);
    expect(await house.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    const { error } = await house.ticket(ids[1] ?? "");
    expect(error).toMatchObject({ code: Code.Aborted, message: "its world was destroyed" });
    // Its own time to be followed was over while it had a seat.
    await house.pass(15_000, 5_000);
    expect(house.matchmaker.counts().tickets).toMatchObject({ waiting: 1, failed: 0 });
  });

  it("may lose its server while it is destroyed", async () => {
    await using match = await matched({});
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
  it("is reported, and not repeated while it takes its time", async () => {
    await using match = await matched({ resetAfterSequences: 1 });
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
    await using match = await matched({ resetEvery: durationFromMs(60_000) });
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
