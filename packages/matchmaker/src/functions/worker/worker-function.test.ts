// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it, onTestFinished } from "vitest";
import { eventsOf, House, profile } from "../../../testing/house.ts";
import type { MatchProposal } from "../match-function.ts";
import { workerFunction } from "./worker-function.ts";

const module = new URL("../../../testing/programs/match-functions.ts", import.meta.url);

/** Opens a house with two profiles: one calls an export of the module in a worker, the other a built-in function. */
async function open(name: string, source = module): Promise<House> {
  const author = workerFunction(source, name);
  onTestFinished(() => author[Symbol.asyncDispose]());
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "author", parameters: { map: "night" } } },
  });
  const profiles = [profile({ name: "authors", matchFunction, seats: 2 }), profile()];
  const house = await House.open({ profiles, functions: { author } });
  await house.serve("a");
  return house;
}

/** Ticks until tickets have these states, without moving the clock. */
async function expectStates(house: House, ids: readonly string[], state: string): Promise<void> {
  const states = async () => {
    await house.settle(1);
    return await house.states(ids);
  };
  await expect.poll(states, { timeout: 60_000 }).toEqual(ids.map(() => state));
}

/** Ticks until the function has failed, and returns the messages. */
async function failures(house: House): Promise<readonly string[]> {
  const messages = () => eventsOf(house, "bad-proposal").map(({ error }) => error.message);
  const failed = async () => {
    await house.settle(1);
    return messages().length;
  };
  await expect.poll(failed, { timeout: 60_000 }).toBeGreaterThan(0);
  return messages();
}

it("a match function in a worker thread matches tickets, with its parameters", async () => {
  await using house = await open("inPairs");
  const ids = await house.tickets(4, { profile: "authors" });
  await expectStates(house, ids, "ASSIGNED");
  const { assignment } = await house.ticket(ids[0] ?? "");
  expect(assignment?.data).toEqual({ isMainThread: false, map: "night" });
  const later = await house.tickets(2, { profile: "authors" });
  await expectStates(house, later, "ASSIGNED");
  expect(eventsOf(house, "bad-proposal")).toEqual([]);
});

it("proposals for which servers have no room are made later", async () => {
  await using house = await open("inPairs");
  const ids = await house.tickets(100, { profile: "authors" });
  await expectStates(house, ids.slice(0, 20), "ASSIGNED");
  await house.serve("b", { maxWorlds: 100, maxAgents: 200 });
  await expectStates(house, ids, "ASSIGNED");
  expect(eventsOf(house, "bad-proposal")).toEqual([]);
});

it("a function that never returns is terminated, and called again in another thread", async () => {
  await using house = await open("endless");
  const first = await house.tickets(2, { profile: "authors" });
  await expectStates(house, first, "ASSIGNED");
  const [stuck = ""] = await house.tickets(1, {
    profile: "authors",
    searchFields: { tags: ["endless"] },
  });
  const others = await house.tickets(2, { profile: "any" });
  await expectStates(house, others, "ASSIGNED");
  house.time.advance(1_000);
  expect(await failures(house)).toEqual([
    "the match function did not finish within 1000 ms; its earlier proposals are used: 0 (limit: matchFunctionMs)",
  ]);
  await house.frontend.cancelTicket({ ticketId: stuck });
  const second = await house.tickets(2, { profile: "authors" });
  // Ends the cooldown of the function.
  house.time.advance(1_000);
  await expectStates(house, second, "ASSIGNED");
});

it("proposals are received as they are made, even if the function never returns", async () => {
  await using endless = workerFunction(module, "endless");
  const search = { doubles: {}, strings: {}, tags: ["endless"] };
  const all = ["a", "b"].map((id) => ({ id, createdMs: 0, search, extensions: {} }));
  const ended = new AbortController();
  const context = { profile: "authors", parameters: {}, pools: new Map([["all", all]]), nowMs: 0 };
  const matches = await endless({ ...context, signal: ended.signal });
  const received: MatchProposal[] = [];
  for await (const match of matches) {
    received.push(match);
    ended.abort();
  }
  expect(received.map(({ teams }) => teams)).toEqual([{ all }]);
});

it("the proposals before an error are used", async () => {
  await using house = await open("failing");
  const ids = await house.tickets(2, { profile: "authors" });
  await expectStates(house, ids, "ASSIGNED");
  expect(await failures(house)).toContain("division by zero");
});

it.each([
  ["exiting", /^the worker thread of the match function ended with code 7$/],
  ["functionAsData", /could not be cloned/],
  ["notAFunction", /match-functions\.ts: expected a function "notAFunction", received number$/],
  ["missing", /expected a function "missing", received undefined$/],
])("the failure of %s is reported, and other profiles are unaffected", async (name, message) => {
  await using house = await open(name);
  await house.tickets(1, { profile: "authors" });
  expect(await failures(house)).toEqual([expect.stringMatching(message)]);
  const others = await house.tickets(2, { profile: "any" });
  await expectStates(house, others, "ASSIGNED");
});

it("a module that cannot be loaded is reported", async () => {
  await using house = await open("inPairs", new URL("./nowhere.ts", import.meta.url));
  await house.tickets(1, { profile: "authors" });
  expect(await failures(house)).toEqual([expect.stringContaining("nowhere.ts")]);
});
