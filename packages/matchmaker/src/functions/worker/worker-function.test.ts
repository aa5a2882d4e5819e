// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it, onTestFinished } from "vitest";
import { eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import type { MatchProposal } from "../match-function.ts";
import { workerFunction } from "./worker-function.ts";

const module = new URL("../../../testing/programs/match-functions.ts", import.meta.url);

/** Opens a fleet with two profiles: one calls an export of the module in a worker, the other a built-in function. */
async function open(name: string, source = module): Promise<Fleet> {
  const author = workerFunction(source, name);
  onTestFinished(() => author[Symbol.asyncDispose]());
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "author", parameters: { map: "night" } } },
  });
  const profiles = [profile({ name: "authors", matchFunction, seats: 2 }), profile()];
  const fleet = await Fleet.open({ profiles, functions: { author } });
  await fleet.serve("a");
  return fleet;
}

/** Ticks until tickets have these states, without moving the clock. */
async function expectStates(fleet: Fleet, ids: readonly string[], state: string): Promise<void> {
  const states = async () => {
    await fleet.settle(1);
    return await fleet.states(ids);
  };
  await expect.poll(states, { timeout: 60_000 }).toEqual(ids.map(() => state));
}

/** Ticks until the function has failed, and returns the messages. */
async function failures(fleet: Fleet): Promise<readonly string[]> {
  const messages = () => eventsOf(fleet, "bad-proposal").map(({ error }) => error.message);
  const failed = async () => {
    await fleet.settle(1);
    return messages().length;
  };
  await expect.poll(failed, { timeout: 60_000 }).toBeGreaterThan(0);
  return messages();
}

it("a match function in a worker thread matches tickets, with its parameters", async () => {
  await using fleet = await open("inPairs");
  const ids = await fleet.tickets(4, { profile: "authors" });
  await expectStates(fleet, ids, "ASSIGNED");
  const { assignment } = await fleet.ticket(ids[0] ?? "");
  expect(assignment?.data).toEqual({ isMainThread: false, map: "night" });
  const later = await fleet.tickets(2, { profile: "authors" });
  await expectStates(fleet, later, "ASSIGNED");
  expect(eventsOf(fleet, "bad-proposal")).toEqual([]);
});

it("proposals for which servers have no room are made later", async () => {
  await using fleet = await open("inPairs");
  const ids = await fleet.tickets(100, { profile: "authors" });
  await expectStates(fleet, ids.slice(0, 20), "ASSIGNED");
  await fleet.serve("b", { maxWorlds: 100, maxAgents: 200 });
  await expectStates(fleet, ids, "ASSIGNED");
  expect(eventsOf(fleet, "bad-proposal")).toEqual([]);
});

it("a function that never returns is terminated, and called again in another thread", async () => {
  await using fleet = await open("endless");
  const first = await fleet.tickets(2, { profile: "authors" });
  await expectStates(fleet, first, "ASSIGNED");
  const [stuck = ""] = await fleet.tickets(1, {
    profile: "authors",
    searchFields: { tags: ["endless"] },
  });
  const others = await fleet.tickets(2, { profile: "any" });
  await expectStates(fleet, others, "ASSIGNED");
  fleet.time.advance(1_000);
  expect(await failures(fleet)).toEqual([
    "the match function did not finish within 1000 ms and was stopped (proposals made and used: 0); make it faster, or raise matchFunctionMs (limit: matchFunctionMs)",
  ]);
  await fleet.frontend.cancelTicket({ ticketId: stuck });
  const second = await fleet.tickets(2, { profile: "authors" });
  // Ends the cooldown of the function.
  fleet.time.advance(1_000);
  await expectStates(fleet, second, "ASSIGNED");
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
  await using fleet = await open("failing");
  const ids = await fleet.tickets(2, { profile: "authors" });
  await expectStates(fleet, ids, "ASSIGNED");
  expect(await failures(fleet)).toContain("division by zero");
});

it.each([
  ["exiting", /^the worker thread of the match function ended with code 7$/],
  ["functionAsData", /could not be cloned/],
  ["notAFunction", /match-functions\.ts: expected a function "notAFunction", received number$/],
  ["missing", /expected a function "missing", received undefined$/],
])("the failure of %s is reported, and other profiles are unaffected", async (name, message) => {
  await using fleet = await open(name);
  await fleet.tickets(1, { profile: "authors" });
  expect(await failures(fleet)).toEqual([expect.stringMatching(message)]);
  const others = await fleet.tickets(2, { profile: "any" });
  await expectStates(fleet, others, "ASSIGNED");
});

it("a module that cannot be loaded is reported", async () => {
  await using fleet = await open("inPairs", new URL("./nowhere.ts", import.meta.url));
  await fleet.tickets(1, { profile: "authors" });
  expect(await failures(fleet)).toEqual([expect.stringContaining("nowhere.ts")]);
});

it("a module that cannot be loaded is loaded again by the next run", async () => {
  const folder = await mkdtemp(join(tmpdir(), "match-function-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "repaired.mjs");
  await writeFile(path, 'throw new Error("the module is broken");');
  await using repaired = workerFunction(pathToFileURL(path), "none");
  const run = async (): Promise<number> => {
    const { signal } = new AbortController();
    const context = { profile: "authors", parameters: {}, pools: new Map(), nowMs: 0, signal };
    let proposals = 0;
    for await (const _ of await repaired(context)) {
      proposals += 1;
    }
    return proposals;
  };
  await expect(run()).rejects.toThrow("the module is broken");
  await writeFile(path, "export function* none() {}");
  expect(await run()).toBe(0);
});
