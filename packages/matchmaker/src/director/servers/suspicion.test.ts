// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";

/** Opens a fleet in which each match has one agent, with server "a". */
async function open(maxWorlds = 10, options: Parameters<typeof Fleet.open>[0] = {}) {
  const fleet = await Fleet.open({ profiles: [profile({ count: 1 })], ...options });
  const server = await fleet.serve("a", { maxWorlds });
  forgetCalls(fleet);
  /** Assigns a ticket and cancels it before its agent joins: the seat stays reserved. */
  const cancelOne = async (): Promise<void> => {
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states([id])).toEqual(["ASSIGNED"]);
    await fleet.frontend.cancelTicket({ ticketId: id });
  };
  return { fleet, server, cancelOne, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

/** Forgets the calls so far: a registration also checks the server. */
function forgetCalls({ servers }: Fleet): void {
  servers.calls.length = 0;
}

const checks = (fleet: Fleet): number => callsOf(fleet, "check").length;

describe("a suspect server", () => {
  it("gets no agents while it does not answer, and gets agents once it has reported again", async () => {
    await using scene = await open();
    const { fleet, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await fleet.settle();
    expect(checks(fleet)).toBe(1);
    const ids = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING"]);
    server.isUp = true;
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING"]);
    await fleet.report(server);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("gets agents once it has registered again", async () => {
    await using scene = await open();
    const { fleet, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await fleet.settle();
    server.isUp = true;
    await fleet.register(server);
    const ids = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("that was removed gets agents as soon as a server registers under its id", async () => {
    await using scene = await open();
    const { fleet, server, cancelOne } = scene;
    await cancelOne();
    server.isUp = false;
    await fleet.settle();
    await fleet.registry.deregisterServer({ serverId: "a" });
    await fleet.pass(1_000);
    expect(eventsOf(fleet, "server-gone")).toHaveLength(1);
    server.isUp = true;
    server.worlds.clear();
    await fleet.register(server);
    const ids = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("is checked again if another agent cancels its ticket after a new report", async () => {
    await using scene = await open(2);
    const { fleet, server, cancelOne } = scene;
    const [second = ""] = await fleet.tickets(1);
    await fleet.settle();
    await cancelOne();
    server.isUp = false;
    await fleet.settle();
    expect(checks(fleet)).toBe(1);
    // The server is full, so no match would be placed on it: only the cancel can cause the second check.
    await fleet.report(server);
    await fleet.frontend.cancelTicket({ ticketId: second });
    await fleet.settle();
    expect(checks(fleet)).toBe(2);
  });

  it("is checked once, however many agents cancel their tickets before it reports", async () => {
    await using scene = await open();
    const { fleet, server, cancelOne } = scene;
    const others = await fleet.tickets(2);
    await fleet.settle();
    await cancelOne();
    server.isUp = false;
    await fleet.settle();
    for (const ticketId of others) {
      await fleet.frontend.cancelTicket({ ticketId });
      await fleet.settle();
    }
    expect(checks(fleet)).toBe(1);
  });

  it("is checked once for each cancelled ticket, however long the ticket's seat stays reserved", async () => {
    await using scene = await open();
    const { fleet, cancelOne } = scene;
    await cancelOne();
    await fleet.settle();
    expect(checks(fleet)).toBe(1);
    await fleet.pass(10_000);
    expect(checks(fleet)).toBe(1);
  });

  it("is not checked twice at a time", async () => {
    await using scene = await open();
    const { fleet, server, cancelOne } = scene;
    const [second = ""] = await fleet.tickets(1);
    await fleet.settle();
    const release = fleet.servers.hold("check");
    await cancelOne();
    await fleet.matchmaker.tick();
    expect(checks(fleet)).toBe(1);
    await fleet.report(server);
    await fleet.frontend.cancelTicket({ ticketId: second });
    const ids = await fleet.tickets(1);
    await fleet.matchmaker.tick();
    expect(checks(fleet)).toBe(1);
    // The server is suspect again until it answers the pending check.
    expect(await fleet.states(ids)).toEqual(["WAITING"]);
    release();
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED"]);
  });

  it("gets agents as soon as it has answered, before the next regular tick", async () => {
    const settings = { tickMs: 3_600_000, minTickMs: 20, leaderLeaseMs: 36_000_000 };
    await using scene = await open(10, { settings, run: true });
    const { fleet } = scene;
    // Only a wake ends the pause between two ticks so early.
    const stateOf = async (id: string): Promise<string | undefined> => {
      fleet.time.advance(20);
      const [state] = await fleet.states([id]);
      return state;
    };
    const [first = ""] = await fleet.tickets(1);
    await expect.poll(() => stateOf(first)).toBe("ASSIGNED");
    const release = fleet.servers.hold("check");
    await fleet.frontend.cancelTicket({ ticketId: first });
    const [second = ""] = await fleet.tickets(1);
    await expect.poll(() => stateOf(second).then(() => checks(fleet))).toBe(1);
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
  const { fleet, server, cancelOne } = scene;
  await cancelOne();
  await fleet.settle();
  expect(checks(fleet)).toBe(1);
  await fleet.registry.deregisterServer({ serverId: "a" });
  server.isUp = false;
  await fleet.pass(50, 10);
  expect(eventsOf(fleet, "server-gone")).toHaveLength(1);
  server.isUp = true;
  server.worlds.clear();
  await fleet.register(server);
  forgetCalls(fleet);
  await cancelOne();
  await fleet.settle();
  expect(checks(fleet)).toBe(1);
});
