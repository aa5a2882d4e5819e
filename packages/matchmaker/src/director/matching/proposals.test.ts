// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  MatchProfileSchema,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { violations } from "../../../testing/invariants.ts";
import type { MatchProposal, WaitingTicket } from "../../functions/match-function.ts";
import type { CustomMatchFunction } from "../../functions/profile-function.ts";
import type { MatchmakerSettings } from "../../model/settings.ts";
import type { Evaluate, Proposal } from "../context.ts";

/** Opens a fleet with two profiles: one calls `author`, the other a built-in function. */
async function open(
  author: CustomMatchFunction,
  evaluate?: Evaluate,
  settings: Partial<MatchmakerSettings> = {},
  run = false,
): Promise<Fleet> {
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "author" } },
  });
  const profiles = [profile({ name: "authors", matchFunction, seats: 2 }), profile()];
  return await Fleet.open({ profiles, functions: { author }, evaluate, settings, run });
}

const faultsOf = ({ events }: Fleet): string[] =>
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
    await using fleet = await open(author);
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    const others = await fleet.tickets(2, { profile: "any" });
    await fleet.settle();
    expect(faultsOf(fleet)).toContainEqual(expect.stringMatching(message));
    expect(await fleet.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("cannot propose tickets of another profile", async () => {
    let id = "";
    await using fleet = await open(({ pools }) =>
      (pools.get("all") ?? []).map((ticket) => ({ teams: { all: [{ ...ticket, id }] } })),
    );
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    [id = ""] = await fleet.tickets(1, { profile: "any" });
    await fleet.settle();
    expect(faultsOf(fleet)).toContain(`expected tickets of the profile's pools, received "${id}"`);
    expect(await fleet.states([id])).toEqual(["WAITING"]);
  });

  it("is reported in at most eleven events, however many impossible matches it proposes", async () => {
    await using fleet = await open(({ pools }) =>
      Array.from({ length: 300 }, () => ({ teams: { nobody: (pools.get("all") ?? []).slice(1) } })),
    );
    await fleet.serve("a", { maxWorlds: 1_000, maxAgents: 10_000 });
    await fleet.tickets(1, { profile: "authors" });
    await fleet.settle(1);
    const faults = faultsOf(fleet);
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
    await using fleet = await open(author);
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    await fleet.tickets(1, { profile: "authors", partySize: 2 });
    await fleet.settle(1);
    await fleet.settle(1);
    const faults = faultsOf(fleet);
    expect(faults[0]).toMatch(message);
    expect(faults.filter((fault) => fault === faults[0]).length).toBeGreaterThan(0);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });
});

describe("the runs of a match function", () => {
  it("start only when tickets have changed, or an interval has passed", async () => {
    let runs = 0;
    await using fleet = await open(
      () => {
        runs += 1;
        return [];
      },
      undefined,
      { tickMs: 500 },
    );
    await fleet.serve("a");
    await fleet.settle();
    expect(runs).toBe(0);
    await fleet.tickets(1, { profile: "authors" });
    await fleet.settle();
    expect(runs).toBe(1);
    fleet.time.advance(499);
    await fleet.settle();
    expect(runs).toBe(1);
    fleet.time.advance(1);
    await fleet.settle();
    expect(runs).toBe(2);
    await fleet.tickets(1, { profile: "authors" });
    await fleet.settle();
    expect(runs).toBe(3);
  });

  it("close their generator when servers have no more room, so that it can clean up", async () => {
    let isClean = false;
    await using fleet = await open(async function* ({ pools }) {
      try {
        yield* inPairs(pools.get("all") ?? []);
      } finally {
        isClean = true;
      }
    });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.tickets(4, { profile: "authors" });
    await fleet.settle();
    expect(isClean).toBe(true);
    expect(faultsOf(fleet)).toEqual([]);
    expect(eventsOf(fleet, "matched")).toHaveLength(1);
  });

  it.each<[string, CustomMatchFunction]>([
    [
      "a generator",
      function* ({ pools }) {
        try {
          yield* inPairs(pools.get("all") ?? []);
        } finally {
          // biome-ignore lint/correctness/noUnsafeFinally: the function under test has this fault.
          throw new Error("cannot clean up");
        }
      },
    ],
    [
      "an asynchronous generator",
      async function* ({ pools }) {
        try {
          yield* inPairs(pools.get("all") ?? []);
        } finally {
          // biome-ignore lint/correctness/noUnsafeFinally: the function under test has this fault.
          throw new Error("cannot clean up");
        }
      },
    ],
  ])("report %s that fails to clean up", async (_, author) => {
    await using fleet = await open(author);
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.tickets(4, { profile: "authors" });
    await fleet.settle();
    expect(eventsOf(fleet, "bad-proposal")[0]).toMatchObject({
      profile: "authors",
      error: { message: "cannot clean up" },
    });
    expect(eventsOf(fleet, "matched")).toHaveLength(1);
  });

  it("accept an iterator that cannot be closed", async () => {
    await using fleet = await open(({ pools }) => {
      const pairs = inPairs(pools.get("all") ?? []);
      return { [Symbol.iterator]: () => ({ next: () => pairs.next() }) };
    });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.tickets(4, { profile: "authors" });
    await fleet.settle();
    expect(eventsOf(fleet, "matched")).toHaveLength(1);
    expect(faultsOf(fleet)).toEqual([]);
  });

  it("of one profile start during the cooldown of another profile's function", async () => {
    const custom = (name: string) =>
      create(MatchFunctionSchema, { function: { case: "custom", value: { name } } });
    const profiles = ["bad", "good"].map((name) =>
      profile({ name, matchFunction: custom(name), seats: 2 }),
    );
    await using fleet = await Fleet.open({
      profiles,
      functions: {
        bad: () => Promise.reject(new Error("division by zero")),
        good: ({ pools }) => inPairs(pools.get("all") ?? []),
      },
    });
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "bad" });
    await fleet.settle();
    expect(faultsOf(fleet)).toEqual(["division by zero"]);
    const ids = await fleet.tickets(2, { profile: "good" });
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("wait for a cooldown after the function has blocked the matchmaker, also if it had proposed a match", async () => {
    let runs = 0;
    const fleet = await open(
      function* ({ pools }) {
        runs += 1;
        yield* inPairs(pools.get("all") ?? []);
        fleet.time.advance(6_000);
      },
      undefined,
      { leaderLeaseMs: 60_000, serverLeaseMs: 60_000 },
    );
    await using _ = fleet;
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    await fleet.report(server);
    await fleet.tickets(1, { profile: "authors" });
    await fleet.settle();
    expect(runs).toBe(1);
  });

  it("wait for a cooldown after a failure, and start without a cooldown after a success", async () => {
    let runs = 0;
    let fails = true;
    await using fleet = await open(
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
    await fleet.serve("a");
    const more = async (): Promise<void> => {
      await fleet.tickets(1, { profile: "authors" });
      await fleet.settle();
    };
    await more();
    await more();
    expect(runs).toBe(1);
    fails = false;
    fleet.time.advance(4_000);
    await more();
    expect(runs).toBe(2);
    await more();
    expect(runs).toBe(3);
    // The success ended the failures in a row, so the next cooldown is short.
    fails = true;
    await more();
    fails = false;
    fleet.time.advance(4_000);
    await more();
    expect(runs).toBe(5);
  });

  it("that propose asynchronously trigger a tick", async () => {
    await using fleet = await open(
      async ({ pools }) => {
        await setImmediate();
        return inPairs(pools.get("all") ?? []);
      },
      undefined,
      { tickMs: 60_000, minTickMs: 20 },
      true,
    );
    await fleet.serve("a");
    const ids = await fleet.tickets(2, { profile: "authors" });
    const beganMs = fleet.time.now();
    await expect
      .poll(async () => {
        fleet.time.advance(20);
        await setImmediate();
        return await fleet.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(fleet.time.now() - beganMs).toBeLessThan(60_000);
  });

  it("start again for a profile that is replaced while an earlier run is pending", async () => {
    let runs = 0;
    await using fleet = await open(() => {
      runs += 1;
      return new Promise(() => {});
    });
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    await fleet.settle();
    expect(runs).toBe(1);
    const { profile: stored } = await fleet.admin.getProfile({ name: "authors" });
    if (stored !== undefined) {
      await fleet.admin.putProfile({ profile: { ...stored, seats: 3 } });
    }
    await fleet.settle();
    expect(runs).toBe(2);
  });
});

describe("a custom match function", () => {
  it("may return a promise", async () => {
    await using fleet = await open(async ({ pools }) => {
      await setImmediate();
      return inPairs(pools.get("all") ?? []);
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(4, { profile: "authors" });
    await expect
      .poll(async () => {
        await fleet.settle();
        return await fleet.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED", "ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(fleet)).toEqual([]);
  });

  it("may be an asynchronous generator", async () => {
    await using fleet = await open(async function* ({ pools }) {
      for (const pair of inPairs(pools.get("all") ?? [])) {
        await setImmediate();
        yield pair;
      }
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(4, { profile: "authors" });
    await expect
      .poll(async () => {
        await fleet.settle();
        return await fleet.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED", "ASSIGNED", "ASSIGNED"]);
  });

  it("that never answers is abandoned after matchFunctionMs, and is called three times at most", async () => {
    const signals: AbortSignal[] = [];
    await using fleet = await open(({ signal }) => {
      signals.push(signal);
      return new Promise(() => {});
    });
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    const others = await fleet.tickets(2, { profile: "any" });
    await fleet.settle();
    expect(await fleet.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(fleet)).toEqual([]);
    await fleet.pass(1_000);
    expect(faultsOf(fleet)).toEqual([
      "the match function did not answer within 1000 ms; make it faster, or raise matchFunctionMs (limit: matchFunctionMs)",
    ]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    await fleet.pass(120_000, 1_000);
    expect(signals).toHaveLength(3);
  });

  it("that times out is not called again while three calls are pending; a late failure is reported", async () => {
    const runs: { answer(matches: readonly MatchProposal[]): void; fail(error: Error): void }[] =
      [];
    await using fleet = await open(
      () =>
        new Promise((resolve, reject) => {
          runs.push({ answer: resolve, fail: reject });
        }),
    );
    await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    await fleet.pass(120_000, 1_000);
    expect(runs).toHaveLength(3);
    const before = faultsOf(fleet).length;
    runs[0]?.fail(new Error("far too late"));
    await fleet.pass(60_000, 1_000);
    expect(faultsOf(fleet).slice(before)).toContain("far too late");
    expect(runs).toHaveLength(4);
    runs[1]?.answer([]);
    runs[2]?.answer([]);
    await fleet.pass(120_000, 1_000);
    expect(runs).toHaveLength(6);
  });

  it("that stops yielding keeps the matches that it proposed before", async () => {
    await using fleet = await open(async function* ({ pools }) {
      const [first] = inPairs(pools.get("all") ?? []);
      if (first !== undefined) {
        yield first;
      }
      await new Promise(() => {});
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    await fleet.pass(1_000);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(faultsOf(fleet)[0]).toMatch(
      /did not finish within 1000 ms and was stopped \(proposals made and used: 1\); .* \(limit: matchFunctionMs\)$/,
    );
  });

  it("that blocks the matchmaker is reported and is called less often each time, and other profiles are still matched", async () => {
    let calls = 0;
    const fleet = await open(({ pools }) => {
      calls += 1;
      fleet.time.advance(6_000);
      return inPairs(pools.get("all") ?? []);
    });
    await using _ = fleet;
    const server = await fleet.serve("a");
    await fleet.tickets(1, { profile: "authors" });
    const others = await fleet.tickets(2, { profile: "any" });
    await fleet.settle();
    expect(faultsOf(fleet)[0]).toMatch(
      /held up the whole matchmaker: expected at most 1000 ms, received 6000 ms; .*\(limit: matchFunctionMs\)$/,
    );
    expect(calls).toBe(1);
    await fleet.report(server);
    await fleet.settle();
    expect(await fleet.states(others)).toEqual(["ASSIGNED", "ASSIGNED"]);
    // It blocked for 6 s, so it pauses for at least 60 s each time.
    for (let seconds = 0; seconds < 55; seconds++) {
      await fleet.pass(1_000);
    }
    expect(calls).toBe(1);
    for (let seconds = 0; seconds < 60; seconds++) {
      await fleet.pass(1_000);
    }
    expect(calls).toBe(2);
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
      const fleet = await open(({ signal }) => {
        signals.push(signal);
        return run();
      });
      await fleet.serve("a");
      await fleet.tickets(1, { profile: "authors" });
      await fleet.settle();
      await fleet.matchmaker.close();
      await setImmediate();
      expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
      expect(faultsOf(fleet)).toEqual([]);
    },
  );

  it("that proposes tickets which were cancelled in the meantime makes no match, and no fault is reported", async () => {
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const seen: Proposal[] = [];
    await using fleet = await open(
      async ({ pools }) => {
        await asked;
        const [one, other] = pools.get("all") ?? [];
        return one && other ? [{ teams: { one: [one], other: [other] } }] : [];
      },
      (proposals) => {
        seen.push(...proposals);
        return proposals;
      },
    );
    await fleet.serve("a");
    const [first = "", second = ""] = await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    await fleet.frontend.cancelTicket({ ticketId: first });
    answer();
    await fleet.settle();
    expect(await fleet.states([first, second])).toEqual(["CANCELLED", "WAITING"]);
    expect(seen).toEqual([]);
    expect(faultsOf(fleet)).toEqual([]);
  });

  it("makes no match for a profile that was replaced after the function was called", async () => {
    const answers: (() => void)[] = [];
    await using fleet = await open(async ({ pools }) => {
      await new Promise<void>((resolve) => {
        answers.push(resolve);
      });
      return inPairs(pools.get("all") ?? []);
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    const { profile: authors } = await fleet.admin.getProfile({ name: "authors" });
    if (authors === undefined) {
      throw new Error("a profile was expected");
    }
    const replaced = create(MatchProfileSchema, { ...authors, pools: [...authors.pools] });
    replaced.pools = [create(PoolSchema, { name: "all", tagPresentFilters: [{ tag: "other" }] })];
    await fleet.admin.putProfile({ profile: replaced });
    for (const answer of answers) {
      answer();
    }
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  });

  it("is not called while no server has room", async () => {
    let calls = 0;
    await using fleet = await open(() => {
      calls += 1;
      return [];
    });
    await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    expect(calls).toBe(0);
    await fleet.serve("a");
    await fleet.settle();
    expect(calls).toBe(1);
  });

  it("that takes five milliseconds for each match lets other work run before it is asked for the next", async () => {
    let hasRun = false;
    const before: boolean[] = [];
    const fleet = await open(function* ({ pools }) {
      void setImmediate().then(() => {
        hasRun = true;
      });
      for (const pair of inPairs(pools.get("all") ?? [])) {
        before.push(hasRun);
        fleet.time.advance(5);
        yield pair;
      }
    });
    await using _ = fleet;
    await fleet.serve("a");
    await fleet.tickets(6, { profile: "authors" });
    await fleet.settle();
    expect(before).toEqual([false, true, true]);
  });

  it("may block the matchmaker for exactly matchFunctionMs", async () => {
    const fleet = await open(({ pools }) => {
      fleet.time.advance(1_000);
      return inPairs(pools.get("all") ?? []);
    });
    await using _ = fleet;
    await fleet.serve("a");
    const ids = await fleet.tickets(2, { profile: "authors" });
    await fleet.settle();
    expect(faultsOf(fleet)).toEqual([]);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("is read only for as many matches as servers have room for", async () => {
    let asked = 0;
    await using fleet = await open(function* ({ pools }) {
      for (const pair of inPairs(pools.get("all") ?? [])) {
        asked += 1;
        yield pair;
      }
    });
    const ids = await fleet.tickets(6, { profile: "authors" });
    await fleet.settle();
    expect(asked).toBe(0);
    await fleet.serve("a", { maxWorlds: 2 });
    await fleet.settle(6);
    expect(asked).toBe(2);
    expect((await fleet.states(ids)).filter((state) => state === "ASSIGNED")).toHaveLength(4);
  });
});

describe("a faulty evaluation", () => {
  it.each<[string, Evaluate, RegExp]>([
    ["rejects", () => untyped(Promise.reject(new Error("too late"))), /too late/],
    ["returns a value that is not iterable", () => untyped(7), /evaluate failed: .*iter/],
    [
      "throws",
      () => {
        throw new Error("division by zero");
      },
      /^evaluate failed: division by zero\. Until it is called again, matches are chosen by score/,
    ],
  ])("that %s is reported, and the default choice is used", async (_, evaluate, message) => {
    await using fleet = await Fleet.open({ evaluate });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle(1);
    const faults = eventsOf(fleet, "step-failed").map(({ error }) => error.message);
    expect(faults).toContainEqual(expect.stringMatching(message));
    expect(faults.length).toBeLessThanOrEqual(2);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("that chooses a value that is not a proposal is reported, and matches are made once it works again", async () => {
    let evaluate: Evaluate = () => [JSON.parse("null")];
    await using fleet = await Fleet.open({ evaluate: (proposals) => evaluate(proposals) });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "step-failed").map(({ error }) => error.message)).toEqual([
      "evaluate: expected only proposals from its argument, received others: 1",
    ]);
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    evaluate = (proposals) => proposals;
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it.each<[string, (fleet: Fleet) => void]>([
    [
      "throws",
      () => {
        throw new Error("division by zero");
      },
    ],
    ["is late", (fleet) => fleet.time.advance(1_001)],
  ])("that %s is called again after cooldownMs, which doubles", async (_, fail) => {
    let calls = 0;
    const fleet = await Fleet.open({
      settings: { cooldownMs: 20_000, serverLeaseMs: 86_400_000 },
      evaluate(proposals) {
        calls += 1;
        fail(fleet);
        return proposals;
      },
    });
    await using _fleet = fleet;
    await fleet.serve("a");
    const match = async () => {
      const ids = await fleet.tickets(2);
      await fleet.settle();
      expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
      return calls;
    };
    expect([await match(), await match()]).toEqual([1, 1]);
    fleet.time.advance(20_000);
    expect([await match(), await match()]).toEqual([2, 2]);
    fleet.time.advance(20_000);
    expect(await match()).toBe(2);
    fleet.time.advance(20_000);
    expect(await match()).toBe(3);
    expect(eventsOf(fleet, "step-failed")).toHaveLength(3);
  });

  it("that blocks the matchmaker for six seconds is called again after a minute", async () => {
    let calls = 0;
    const fleet = await Fleet.open({
      settings: { serverLeaseMs: 86_400_000 },
      evaluate(proposals) {
        calls += 1;
        fleet.time.advance(6_000);
        return proposals;
      },
    });
    await using _ = fleet;
    await fleet.serve("a");
    const match = async (afterMs: number): Promise<number> => {
      fleet.time.advance(afterMs);
      const ids = await fleet.tickets(2);
      await fleet.settle();
      expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
      return calls;
    };
    expect([await match(0), await match(59_000), await match(1_000)]).toEqual([1, 1, 2]);
  });

  it.each([
    [1_000, []],
    [1_001, [/^evaluate held up the whole matchmaker: expected at most 1000 ms, received 1001 ms/]],
  ])(
    "that blocks the matchmaker for %i ms is reported if that is longer than matchFunctionMs",
    async (ms, expected) => {
      const fleet = await Fleet.open({
        evaluate(proposals) {
          fleet.time.advance(ms);
          return proposals;
        },
      });
      await using _ = fleet;
      await fleet.serve("a");
      const ids = await fleet.tickets(2);
      await fleet.settle(1);
      const faults = eventsOf(fleet, "step-failed").map(({ error }) => error.message);
      expect(faults).toEqual(expected.map((text) => expect.stringMatching(text)));
      expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    },
  );

  it("is called while a server with the id evaluate is in a cooldown", async () => {
    let calls = 0;
    await using fleet = await Fleet.open({
      settings: { cooldownMs: 60_000 },
      evaluate(proposals) {
        calls += 1;
        return proposals;
      },
    });
    const server = await fleet.serve("evaluate");
    server.createErrors.push(new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full"));
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    const before = calls;
    await fleet.serve("other");
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(calls).toBeGreaterThan(before);
  });

  it("does not prevent the valid matches that it chooses", async () => {
    await using fleet = await Fleet.open({
      evaluate: (proposals) => [JSON.parse("null"), ...proposals],
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});
