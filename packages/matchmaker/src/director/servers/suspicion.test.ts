// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, House, profile } from "../../../testing/house.ts";

/** Opens a house in which each match has one agent, with server "a". */
async function open(maxWorlds = 10, options: Parameters<typeof House.open>[0] = {}) {
  const house = await House.open({ profiles: [profile({ count: 1 })], ...options });
  const server = await house.serve("a", { maxWorlds });
  forgetCalls(house);
  /** Assigns a ticket and cancels it before its agent joins: the seat stays reserved. */
  const cancelOne = async (): Promise<void> => {
    const [id = ""] = await house.tickets(1);
    await house.settle();
    expect(await house.states([id])).toEqual(["ASSIGNED"]);
    await house.frontend.cancelTicket({ ticketId: id });
  };
  return { house, server, cancelOne, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

/** Forgets the calls so far: a registration also checks the server. */
function forgetCalls({ servers }: House): void {
  servers.calls.length = 0;
}

const checks = (house: House): number => callsOf(house, "check").length;

describe("a suspect server", () => {
  it("gets no agents while it does not answer, and gets agents once it has reported again", async () => {
    await using scene = await open();
    const { house, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await house.settle();
    expect(checks(house)).toBe(1);
    const ids = await house.tickets(1);
    await house.settle();
    expect(await house.states(ids)).toEqual(["WAITING"]);
    server.isUp = true;
    await house.settle();
    expect(await house.states(ids)).toEqual(["WAITING"]);
    await house.report(server);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("gets agents once it has registered again", async () => {
    await using scene = await open();
    const { house, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await house.settle();
    server.isUp = true;
    await house.register(server);
    const ids = await house.tickets(1);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("that was removed gets agents as soon as a server registers under its id", async () => {
    await using scene = await open();
    const { house, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await house.settle();
    await house.registry.deregisterServer({ serverId: "a" });
    await house.pass(1_000);
    expect(eventsOf(house, "server-gone")).toHaveLength(1);
    server.isUp = true;
    server.worlds.clear();
    await house.register(server);
    const ids = await house.tickets(1);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("is checked again if another agent cancels its ticket after a new report", async () => {
    await using scene = await open(2);
    const { house, server, cancelOne } = scene;
    const [second = ""] = await house.tickets(1);
    await house.settle();
    await cancelOne();
    server.isUp = false;
    await house.settle();
    expect(checks(house)).toBe(1);
    // The server is full, so it is not among the servers with room.
    await house.report(server);
    await house.frontend.cancelTicket({ ticketId: second });
    await house.settle();
    expect(checks(house)).toBe(2);
  });

  it("is checked once, however many agents cancel their tickets before it reports", async () => {
    await using scene = await open();
    const { house, server, cancelOne } = scene;
    const others = await house.tickets(2);
    await house.settle();
    await cancelOne();
    server.isUp = false;
    await house.settle();
    for (const ticketId of others) {
      await house.frontend.cancelTicket({ ticketId });
      await house.settle();
    }
    expect(checks(house)).toBe(1);
  });

  it("is checked once for each cancelled ticket, however long the ticket's seat stays reserved", async () => {
    await using scene = await open();
    const { house, cancelOne } = scene;
    await cancelOne();
    await house.settle();
    expect(checks(house)).toBe(1);
    await house.pass(10_000);
    expect(checks(house)).toBe(1);
  });

  it("is not checked twice at a time", async () => {
    await using scene = await open();
    const { house, server, cancelOne } = scene;
    const [second = ""] = await house.tickets(1);
    await house.settle();
    const release = house.servers.hold("check");
    await cancelOne();
    await house.matchmaker.tick();
    expect(checks(house)).toBe(1);
    await house.report(server);
    await house.frontend.cancelTicket({ ticketId: second });
    const ids = await house.tickets(1);
    await house.matchmaker.tick();
    expect(checks(house)).toBe(1);
    // The server is suspect again until it answers the pending check.
    expect(await house.states(ids)).toEqual(["WAITING"]);
    release();
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("gets agents as soon as it has answered, before the next regular tick", async () => {
    const settings = { tickMs: 3_600_000, minTickMs: 20, leaderLeaseMs: 36_000_000 };
    await using scene = await open(10, { settings, run: true });
    const { house } = scene;
    // Only a wake ends the pause between two ticks so early.
    const stateOf = async (id: string): Promise<string | undefined> => {
      house.time.advance(20);
      const [state] = await house.states([id]);
      return state;
    };
    const [first = ""] = await house.tickets(1);
    await expect.poll(() => stateOf(first)).toBe("ASSIGNED");
    const release = house.servers.hold("check");
    await house.frontend.cancelTicket({ ticketId: first });
    const [second = ""] = await house.tickets(1);
    await expect.poll(() => stateOf(second).then(() => checks(house))).toBe(1);
    for (let turn = 0; turn < 30; turn++) {
      await setImmediate();
      expect(await stateOf(second)).toBe("WAITING");
    }
    release();
    await expect.poll(() => stateOf(second)).toBe("ASSIGNED");
  });
});

it("a server that has answered is not trusted under a later registration of its id", async () => {
  await using scene = await open(10, { settings: { tickMs: 10 } });
  const { house, server, cancelOne } = scene;
  await cancelOne();
  await house.settle();
  expect(checks(house)).toBe(1);
  await house.registry.deregisterServer({ serverId: "a" });
  server.isUp = false;
  await house.pass(50, 10);
  expect(eventsOf(house, "server-gone")).toHaveLength(1);
  server.isUp = true;
  server.worlds.clear();
  await house.register(server);
  forgetCalls(house);
  await cancelOne();
  await house.settle();
  expect(checks(house)).toBe(1);
});
