// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { afterAll, describe, expect, it } from "vitest";
import { fleetOn, profile } from "../testing/fleet.ts";
import { violations } from "../testing/invariants.ts";
import { SimulatedServer } from "../testing/simulated-servers.ts";
import { stopStores, storeKinds } from "../testing/stores.ts";

afterAll(stopStores);

describe.each(storeKinds.filter(({ isHere }) => isHere))("with a store in $name", (kind) => {
  it("a server that misses renewals keeps its worlds, and may register again with them", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(1_000);
    // The server is silent for longer than its lease.
    for (let seconds = 0; seconds < 20; seconds += 5) {
      data.time.advance(5_000);
      await fleet.settle(1);
    }
    expect((await fleet.admin.listServers({})).servers[0]?.state).toBe(3);
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
    await expect(fleet.report(server)).rejects.toThrow(/register it again/);
    await fleet.register(server);
    await fleet.pass(40_000, 5_000);
    expect((await fleet.admin.listServers({})).servers[0]?.state).toBe(1);
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
    expect(server.destroyed.size).toBe(0);
  });

  it.each([
    ["requeue", 1, ["ASSIGNED", "ASSIGNED"]],
    ["fail", 2, ["FAILED", "FAILED"]],
  ] as const)(
    "the tickets of a killed server %s, as the profile sets",
    async (_, lostPolicy, after) => {
      await using data = await kind.createData();
      await using fleet = await fleetOn(data, { profiles: [profile({ lostPolicy })] });
      const server = await fleet.serve("a");
      const ids = await fleet.tickets(2);
      await fleet.settle();
      await fleet.joinAll(ids);
      await fleet.pass(1_000);
      const other = await fleet.serve("b");
      server.isUp = false;
      await fleet.pass(50_000, 5_000);
      expect(await fleet.states(ids)).toEqual(after);
      const [first] = await Promise.all(ids.map((id) => fleet.ticket(id)));
      if (lostPolicy === 1) {
        expect(first?.assignment?.address).toBe(other.address);
      } else {
        expect(first?.error?.message).toMatch(/the server of the match is gone/);
      }
      expect((await fleet.admin.listServers({})).servers.map(({ id }) => id)).toEqual(["b"]);
      expect(await violations(fleet.store, fleet.servers)).toEqual([]);
    },
  );

  it("a server whose agents cancel their tickets receives no agents until it has answered", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data, { profiles: [profile({ backfill: true })] });
    const server = await fleet.serve("a");
    const [first = "", second = "", third = ""] = await fleet.tickets(3);
    await fleet.settle();
    await fleet.joinAll([first, second]);
    await fleet.pass(1_000);
    // The server is killed: its agents notice immediately, while its lease is still held.
    server.isUp = false;
    await fleet.frontend.cancelTicket({ ticketId: first });
    await fleet.settle();
    expect(await fleet.states([second, third])).toEqual(["JOINED", "WAITING"]);
    // Only the network had failed: the server reports again, without the agent that left.
    server.isUp = true;
    leave(server, first);
    await fleet.pass(1_000);
    expect(await fleet.states([third])).toEqual(["ASSIGNED"]);
    // If an agent merely leaves, the server is suspect only until the server has answered.
    const [fourth = ""] = await fleet.tickets(1);
    await fleet.pass(2_000);
    leave(server, second);
    await fleet.frontend.cancelTicket({ ticketId: second });
    await fleet.pass(1_000);
    expect(await fleet.states([fourth])).toEqual(["ASSIGNED"]);
  });

  it("a server that restarts at the same address replaces its previous run immediately", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const old = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const restarted = new SimulatedServer("a2", { address: old.address });
    fleet.servers.add(restarted);
    await fleet.register(restarted);
    await fleet.pass(1_000);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(restarted.worlds.size).toBe(1);
    expect((await fleet.admin.listServers({})).servers.map(({ id }) => id)).toEqual(["a2"]);
  });

  it("a create that fails because of its server is retried elsewhere; a create that fails because of its settings fails the tickets", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const first = await fleet.serve("a");
    const second = await fleet.serve("b");
    first.isUp = false;
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(assigned(2));
    expect(second.worlds.size).toBe(1);
    second.createErrors.push(new DmEnvRpcError("INVALID_ARGUMENT", '"size": too large'));
    const refused = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(refused)).toEqual(["FAILED", "FAILED"]);
    expect((await fleet.ticket(refused[0] ?? "")).error?.message).toBe(
      'the world settings of profile "any" were refused: "size": too large; choose another profile, or tell the operator of the matchmaker',
    );
    const again = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(again)).toEqual(assigned(2));
  });

  it("a world whose creates keep failing fails its tickets with the reason", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const server = await fleet.serve("a");
    const fault = () => new DmEnvRpcError("INTERNAL", "division by zero");
    server.createErrors.push(fault(), fault(), fault());
    const ids = await fleet.tickets(2);
    await fleet.pass(30_000, 2_500);
    expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
    expect((await fleet.ticket(ids[0] ?? "")).error?.message).toMatch(
      /could not be created in 3 attempts: division by zero/,
    );
  });

  it("a world that no matchmaker created is adopted if its server started with the world, and is otherwise destroyed once", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const server = fleet.servers.add(new SimulatedServer("a"));
    server.create("gridworld", true);
    server.create("gridworld");
    await fleet.register(server);
    await fleet.pass(30_000, 5_000);
    expect([...server.worlds.keys()]).toEqual(["gridworld-1"]);
    expect(server.destroyed).toEqual(new Map([["gridworld-2", 1]]));
    const [first = ""] = await fleet.tickets(2);
    await fleet.settle();
    expect((await fleet.ticket(first)).assignment?.worldName).toBe("gridworld-1");
    expect(server.created).toBe(2);
  });
});

const assigned = (count: number): string[] => Array.from({ length: count }, () => "ASSIGNED");

/** Removes the agent of a ticket from its world. */
function leave(server: SimulatedServer, ticketId: string): void {
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(ticketId);
  }
}
