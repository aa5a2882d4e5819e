// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  MatchProfileSchema,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { eventsOf, House, profile } from "../../../testing/house.ts";
import { violations } from "../../../testing/invariants.ts";
import type { MatchProposal, WaitingTicket } from "../../functions/match-function.ts";
import type { CustomMatchFunction } from "../../functions/profile-function.ts";
import type { MatchmakerSettings } from "../../settings.ts";
import type { Evaluate, Proposal } from "../context.ts";

/** Opens a house with two profiles: one calls `author`, the other a built-in function. */
async function open(
  author: CustomMatchFunction,
  evaluate?: Evaluate,
  settings: Partial<MatchmakerSettings> = {},
  run = false,
): Promise<House> {
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "author" } },
  });
  const profiles = [profile({ name: "authors", matchFunction, seats: 2 }), profile()];
  return await House.open({ profiles, functions: { author }, evaluate, settings, run });
}

const faultsOf = ({ events }: House): string[] =>
  events.flatMap((event) => (event.kind === "bad-proposal" ? [event.error.message] : []));

/** Returns a value as any type: authors in JavaScript have no type checks. */
const untyped = <T>(answer: unknown): T =>
  Object.getOwnPropertyDescriptor({ answer }, "answer")?.value;

describe("a faulty match function", () => {
  it.each<[string, CustomMatchFunction, RegExp]>([
    ["rejects", () => Promise.reject(new Error("too late")), /too late/],
    ["returns a value that is not iterable", () => untyped(7), /Symbol.asyncIterator/],
    [
      "throws",
      () => {
        throw new Error("division by zero");
      },
      /division by zero/,
    ],
    [
      "throws while it is iterated",
      async function* () {
        yield* [];
        throw new Error("division by zero");
      },
      /division by zero/,
    ],
    ["proposes null", () => [JSON.parse("null")], /null/],
    [
      "proposes data that is too large for a join token",
      ({ pools }) => [{ teams: { all: pools.get("all") ?? [] }, data: { map: "x".repeat(1_100) } }],
      /data of the match: expected at most 1024 bytes as JSON, received 1110 bytes/,
    ],
    [
      "proposes data that is not a setting",
      ({ pools }) => [{ teams: { all: pools.get("all") ?? [] }, data: untyped({ map: { a: 1 } }) }],
      /data of the match "map": expected a string, .*, received \{"a":1\}/,
    ],
    [
      "proposes a score that is not a number",
      ({ pools }) => [{ teams: { all: pools.get("all") ?? [] }, score: JSON.parse('"best"') }],
      /expected a number as score, received best/,
    ],
  ])("that %s is reported, and other profiles are unaffected", async (_, author, message) => {
    await using house = await open(author);
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    const others = await house.tickets(2, { profile: "any" });
    await house.settle();
    expect(faultsOf(house)).toContainEqual(expect.stringMatching(message));
    expect(await house.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("cannot propose tickets of another profile", async () => {
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

  it("is reported in at most eleven events, however many impossible matches it proposes", async () => {
    await using house = await open(({ pools }) =>
      Array.from({ length: 300 }, () => ({ teams: { nobody: (pools.get("all") ?? []).slice(1) } })),
    );
    await house.serve("a", { maxWorlds: 1_000, maxAgents: 10_000 });
    await house.tickets(1, { profile: "authors" });
    await house.settle(1);
    const faults = faultsOf(house);
    expect(faults).toHaveLength(11);
    expect(faults.at(-1)).toBe("impossible proposals after the first 10: 290");
  });
});

/** Proposes tickets in pairs. */
function* inPairs(tickets: readonly WaitingTicket[]): Generator<MatchProposal, void, undefined> {
  for (let at = 0; at + 2 <= tickets.length; at += 2) {
    yield { teams: { all: tickets.slice(at, at + 2) } };
  }
}

describe("an impossible proposal", () => {
  const all = (pools: Parameters<CustomMatchFunction>[0]["pools"]) => pools.get("all") ?? [];

  it.each<[string, CustomMatchFunction, RegExp]>([
    [
      "with the same ticket in two teams",
      ({ pools }) => [{ teams: { one: all(pools).slice(0, 1), other: all(pools).slice(0, 1) } }],
      /expected each ticket once, received a ticket twice/,
    ],
    [
      "with a ticket of an earlier proposal",
      ({ pools }) => [1, 2].map(() => ({ teams: { all: all(pools).slice(0, 1) } })),
      /expected tickets that no earlier proposal of this run contains, received "id-.*"$/,
    ],
    [
      "with more agents than seats",
      ({ pools }) => [{ teams: { all: all(pools) } }],
      /expected a match of 1 to 2 agents, received one of 3/,
    ],
    ["without agents", () => [{ teams: { all: [] } }], /received one of 0/],
  ])("%s is reported, and not made", async (_, author, message) => {
    await using house = await open(author);
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    await house.tickets(1, { profile: "authors", partySize: 2 });
    await house.settle(1);
    await house.settle(1);
    const faults = faultsOf(house);
    expect(faults[0]).toMatch(message);
    expect(faults.filter((fault) => fault === faults[0]).length).toBeGreaterThan(0);
    expect(eventsOf(house, "step-failed")).toEqual([]);
    expect(await violations(house.store, house.servers)).toEqual([]);
  });
});

describe("the runs of a match function", () => {
  it("start only when tickets have changed, or an interval has passed", async () => {
    let runs = 0;
    await using house = await open(
      () => {
        runs += 1;
        return [];
      },
      undefined,
      { tickMs: 500 },
    );
    await house.serve("a");
    await house.settle();
    expect(runs).toBe(0);
    await house.tickets(1, { profile: "authors" });
    await house.settle();
    expect(runs).toBe(1);
    house.time.advance(499);
    await house.settle();
    expect(runs).toBe(1);
    house.time.advance(1);
    await house.settle();
    expect(runs).toBe(2);
    await house.tickets(1, { profile: "authors" });
    await house.settle();
    expect(runs).toBe(3);
  });

  it("close their generator when servers have no more room, so that it can clean up", async () => {
    let isClean = false;
    await using house = await open(async function* ({ pools }) {
      try {
        yield* inPairs(pools.get("all") ?? []);
      } finally {
        isClean = true;
      }
    });
    await house.serve("a", { maxWorlds: 1 });
    await house.tickets(4, { profile: "authors" });
    await house.settle();
    expect(isClean).toBe(true);
    expect(faultsOf(house)).toEqual([]);
    expect(eventsOf(house, "matched")).toHaveLength(1);
  });

  it("report a generator that fails to clean up", async () => {
    await using house = await open(function* ({ pools }) {
      try {
        yield* inPairs(pools.get("all") ?? []);
      } finally {
        // biome-ignore lint/correctness/noUnsafeFinally: the function under test has this fault.
        throw new Error("cannot clean up");
      }
    });
    await house.serve("a", { maxWorlds: 1 });
    await house.tickets(4, { profile: "authors" });
    await house.settle();
    expect(eventsOf(house, "bad-proposal")[0]).toMatchObject({
      profile: "authors",
      error: { message: "cannot clean up" },
    });
    expect(eventsOf(house, "matched")).toHaveLength(1);
  });

  it("wait for a cooldown after a failure, and start without a cooldown after a success", async () => {
    let runs = 0;
    let fails = true;
    await using house = await open(
      () => {
        runs += 1;
        if (fails) {
          throw new Error("division by zero");
        }
        return [];
      },
      undefined,
      { cooldownMs: 4_000 },
    );
    await house.serve("a");
    const more = async (): Promise<void> => {
      await house.tickets(1, { profile: "authors" });
      await house.settle();
    };
    await more();
    await more();
    expect(runs).toBe(1);
    fails = false;
    house.time.advance(4_000);
    await more();
    expect(runs).toBe(2);
    await more();
    expect(runs).toBe(3);
    // The success ended the failures in a row, so the next cooldown is short.
    fails = true;
    await more();
    fails = false;
    house.time.advance(4_000);
    await more();
    expect(runs).toBe(5);
  });

  it("that propose asynchronously trigger a tick", async () => {
    await using house = await open(
      async ({ pools }) => {
        await setImmediate();
        return inPairs(pools.get("all") ?? []);
      },
      undefined,
      { tickMs: 60_000, minTickMs: 20 },
      true,
    );
    await house.serve("a");
    const ids = await house.tickets(2, { profile: "authors" });
    const beganMs = house.time.now();
    await expect
      .poll(async () => {
        house.time.advance(20);
        await setImmediate();
        return await house.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(house.time.now() - beganMs).toBeLessThan(60_000);
  });

  it("start again for a profile that is replaced while an earlier run is pending", async () => {
    let runs = 0;
    await using house = await open(() => {
      runs += 1;
      return new Promise(() => {});
    });
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    await house.settle();
    expect(runs).toBe(1);
    const { profile: stored } = await house.admin.getProfile({ name: "authors" });
    if (stored !== undefined) {
      await house.admin.putProfile({ profile: { ...stored, seats: 3 } });
    }
    await house.settle();
    expect(runs).toBe(2);
  });
});

describe("a custom match function", () => {
  it("may return a promise", async () => {
    await using house = await open(async ({ pools }) => {
      await setImmediate();
      return inPairs(pools.get("all") ?? []);
    });
    await house.serve("a");
    const ids = await house.tickets(4, { profile: "authors" });
    await expect
      .poll(async () => {
        await house.settle();
        return await house.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED", "ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(house)).toEqual([]);
  });

  it("may be an asynchronous generator", async () => {
    await using house = await open(async function* ({ pools }) {
      for (const pair of inPairs(pools.get("all") ?? [])) {
        await setImmediate();
        yield pair;
      }
    });
    await house.serve("a");
    const ids = await house.tickets(4, { profile: "authors" });
    await expect
      .poll(async () => {
        await house.settle();
        return await house.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED", "ASSIGNED", "ASSIGNED"]);
  });

  it("that never answers is abandoned after matchFunctionMs, and is called three times at most", async () => {
    const signals: AbortSignal[] = [];
    await using house = await open(({ signal }) => {
      signals.push(signal);
      return new Promise(() => {});
    });
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    const others = await house.tickets(2, { profile: "any" });
    await house.settle();
    expect(await house.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(house)).toEqual([]);
    await house.pass(1_000);
    expect(faultsOf(house)).toEqual([
      "the match function did not answer within 1000 ms (limit: matchFunctionMs)",
    ]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await house.pass(120_000, 1_000);
    expect(signals).toHaveLength(3);
  });

  it("that times out is not called again while three calls are pending; a late failure is reported", async () => {
    const runs: { answer(matches: readonly MatchProposal[]): void; fail(error: Error): void }[] =
      [];
    await using house = await open(
      () =>
        new Promise((resolve, reject) => {
          runs.push({ answer: resolve, fail: reject });
        }),
    );
    await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    await house.pass(120_000, 1_000);
    expect(runs).toHaveLength(3);
    const before = faultsOf(house).length;
    runs[0]?.fail(new Error("far too late"));
    await house.pass(60_000, 1_000);
    expect(faultsOf(house).slice(before)).toContain("far too late");
    expect(runs).toHaveLength(4);
    runs[1]?.answer([]);
    runs[2]?.answer([]);
    await house.pass(120_000, 1_000);
    expect(runs).toHaveLength(6);
  });

  it("that stops yielding keeps the matches that it proposed before", async () => {
    await using house = await open(async function* ({ pools }) {
      const [first] = inPairs(pools.get("all") ?? []);
      if (first !== undefined) {
        yield first;
      }
      await new Promise(() => {});
    });
    await house.serve("a");
    const ids = await house.tickets(2, { profile: "authors" });
    await house.settle();
    expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
    await house.pass(1_000);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(house)[0]).toMatch(
      /did not finish within 1000 ms; .* are used: 1 \(limit: matchFunctionMs\)$/,
    );
  });

  it("that blocks the matchmaker is reported, is called less often each time, and other profiles are matched afterwards", async () => {
    let calls = 0;
    const house = await open(({ pools }) => {
      calls += 1;
      house.time.advance(6_000);
      return inPairs(pools.get("all") ?? []);
    });
    await using _ = house;
    const server = await house.serve("a");
    await house.tickets(1, { profile: "authors" });
    const others = await house.tickets(2, { profile: "any" });
    await house.settle();
    expect(faultsOf(house)[0]).toMatch(
      /held up the whole matchmaker: expected at most 1000 ms, received 6000 ms; .*\(limit: matchFunctionMs\)$/,
    );
    expect(calls).toBe(1);
    await house.report(server);
    await house.settle();
    expect(await house.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
    for (let seconds = 0; seconds < 60; seconds++) {
      await house.pass(1_000);
    }
    // Six calls in 60 s.
    expect(calls).toBeLessThanOrEqual(6);
  });

  it.each<[string, () => ReturnType<CustomMatchFunction>]>([
    ["has not settled", () => new Promise(() => {})],
    [
      "has not found its next match",
      async function* () {
        yield* [];
        await new Promise(() => {});
      },
    ],
  ])(
    "that %s when its matchmaker is closed is abandoned without a reported fault",
    async (_, run) => {
      const signals: AbortSignal[] = [];
      const house = await open(({ signal }) => {
        signals.push(signal);
        return run();
      });
      await house.serve("a");
      await house.tickets(1, { profile: "authors" });
      await house.settle();
      await house.matchmaker.close();
      await setImmediate();
      expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
      expect(faultsOf(house)).toEqual([]);
    },
  );

  it("that proposes tickets which were cancelled in the meantime makes no match, and no fault is reported", async () => {
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const seen: Proposal[] = [];
    await using house = await open(
      async ({ pools }) => {
        await asked;
        return inPairs(pools.get("all") ?? []);
      },
      (proposals) => {
        seen.push(...proposals);
        return proposals;
      },
    );
    await house.serve("a");
    const [first = "", second = ""] = await house.tickets(2, { profile: "authors" });
    await house.settle();
    await house.frontend.cancelTicket({ ticketId: first });
    answer();
    await house.settle();
    expect(await house.states([first, second])).toEqual(["CANCELLED", "WAITING"]);
    expect(seen).toEqual([]);
    expect(faultsOf(house)).toEqual([]);
  });

  it("makes no match for a profile that was replaced after the function was called", async () => {
    const answers: (() => void)[] = [];
    await using house = await open(async ({ pools }) => {
      await new Promise<void>((resolve) => {
        answers.push(resolve);
      });
      return inPairs(pools.get("all") ?? []);
    });
    await house.serve("a");
    const ids = await house.tickets(2, { profile: "authors" });
    await house.settle();
    const { profile: authors } = await house.admin.getProfile({ name: "authors" });
    if (authors === undefined) {
      throw new Error("a profile was expected");
    }
    const replaced = create(MatchProfileSchema, { ...authors, pools: [...authors.pools] });
    replaced.pools = [create(PoolSchema, { name: "all", tagPresentFilters: [{ tag: "other" }] })];
    await house.admin.putProfile({ profile: replaced });
    for (const answer of answers) {
      answer();
    }
    await house.settle();
    expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  });

  it("is read only for as many matches as servers have room for", async () => {
    let asked = 0;
    await using house = await open(function* ({ pools }) {
      for (const pair of inPairs(pools.get("all") ?? [])) {
        asked += 1;
        yield pair;
      }
    });
    const ids = await house.tickets(6, { profile: "authors" });
    await house.settle();
    expect(asked).toBe(0);
    await house.serve("a", { maxWorlds: 2 });
    await house.settle(6);
    expect(asked).toBe(2);
    expect((await house.states(ids)).filter((state) => state === "ASSIGNED")).toHaveLength(4);
  });
});

describe("a faulty evaluation", () => {
  it.each<[string, Evaluate, RegExp]>([
    ["rejects", () => untyped(Promise.reject(new Error("too late"))), /too late/],
    ["returns a value that is not iterable", () => untyped(7), /iter/],
    [
      "throws",
      () => {
        throw new Error("division by zero");
      },
      /division by zero/,
    ],
    [
      "chooses a value that is not a proposal",
      () => [JSON.parse("null")],
      /evaluate: expected only proposals from its argument, received others: 1/,
    ],
  ])("that %s is reported, and matches are made once it works again", async (_, bad, message) => {
    let evaluate = bad;
    await using house = await House.open({ evaluate: (proposals) => evaluate(proposals) });
    await house.serve("a");
    const ids = await house.tickets(2);
    await house.matchmaker.tick();
    // The rejection is reported after the tick.
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

  it("does not prevent the valid matches that it chooses", async () => {
    await using house = await House.open({
      evaluate: (proposals) => [JSON.parse("null"), ...proposals],
    });
    await house.serve("a");
    const ids = await house.tickets(2);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});
