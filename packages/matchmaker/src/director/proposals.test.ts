// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { House, profile } from "../../testing/house.ts";
import type { MatchFunction } from "../functions/match-function.ts";
import type { Evaluate } from "./context.ts";

/** A house with a profile whose function is an author's, and one whose function is not. */
async function open(author: MatchFunction): Promise<House> {
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "author" } },
  });
  const profiles = [profile({ name: "authors", matchFunction, seats: 2 }), profile()];
  return await House.open({ profiles, functions: { author } });
}

const faultsOf = ({ events }: House): string[] =>
  events.flatMap((event) => (event.kind === "bad-proposal" ? [event.error.message] : []));

/** What an author may answer who does without types. */
const untyped = <T>(answer: unknown): T =>
  Object.getOwnPropertyDescriptor({ answer }, "answer")?.value;

describe("a match function that is no good", () => {
  it.each<[string, MatchFunction, RegExp]>([
    ["answers later, and fails", () => untyped(Promise.reject(new Error("too late"))), /too late/],
    ["never answers", () => untyped(new Promise(() => {})), /iter/],
    ["proposes nothing that is a match", () => [JSON.parse("null")], /null/],
    [
      "gives a score that is no number",
      ({ pools }) => [{ teams: { all: pools.get("all") ?? [] }, score: JSON.parse('"best"') }],
      /expected a number as score, received best/,
    ],
  ])("and %s is told of, and no other profile is disturbed", async (_, author, message) => {
    await using house = await open(author);
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    const others = await house.tickets(2, { profile: "any" });
    await house.settle();
    expect(faultsOf(house)).toContainEqual(expect.stringMatching(message));
    expect(await house.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("cannot have tickets of another profile", async () => {
    let id = "";
    await using house = await open(({ pools }) =>
      (pools.get("all") ?? []).map((ticket) => ({ teams: { all: [{ ...ticket, id }] } })),
    );
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    [id = ""] = await house.tickets(1, { profile: "any" });
    await house.settle();
    expect(faultsOf(house)).toContain(`expected tickets of the profile's pools, received "${id}"`);
    expect(await house.states([id])).toEqual(["WAITING"]);
  });

  it("is told of in a few words, however much it proposes", async () => {
    await using house = await open(({ pools }) =>
      Array.from({ length: 300 }, () => ({ teams: { nobody: (pools.get("all") ?? []).slice(1) } })),
    );
    await house.serve("a", { maxWorlds: 1_000, maxAgents: 10_000 });
    await house.tickets(1, { profile: "authors" });
    await house.matchmaker.tick();
    const faults = faultsOf(house);
    expect(faults).toHaveLength(11);
    expect(faults.at(-1)).toBe("290 more proposals cannot be");
  });
});

describe("an evaluation that is no good", () => {
  it.each<[string, Evaluate, RegExp]>([
    ["answers later, and fails", () => untyped(Promise.reject(new Error("too late"))), /too late/],
    ["answers nothing that can be made", () => untyped(7), /iter/],
    [
      "throws",
      () => {
        throw new Error("division by zero");
      },
      /division by zero/,
    ],
    [
      "chooses what is no proposal",
      () => [JSON.parse("null")],
      /expected proposals that it was given, received 1 that/,
    ],
  ])("and %s is told of, and matches are made when it is good again", async (_, bad, message) => {
    let evaluate = bad;
    await using house = await House.open({ evaluate: (proposals) => evaluate(proposals) });
    await house.serve("a");
    const ids = await house.tickets(2);
    await house.matchmaker.tick();
    // A rejection is told of after the look.
    await house.matchmaker.settled();
    const faults = house.events.flatMap((event) =>
      event.kind === "step-failed" ? [event.error.message] : [],
    );
    expect(faults).toContainEqual(expect.stringMatching(message));
    expect(faults.length).toBeLessThanOrEqual(2);
    expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
    evaluate = (proposals) => proposals;
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("does not keep what it chose well from being made", async () => {
    await using house = await House.open({
      evaluate: (proposals) => [JSON.parse("null"), ...proposals],
    });
    await house.serve("a");
    const ids = await house.tickets(2);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});
