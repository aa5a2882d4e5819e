// SPDX-License-Identifier: Apache-2.0
import { create, fromJson } from "@bufbuild/protobuf";
import {
  LatencyLimitSchema,
  MatchFunctionSchema,
  Placement,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { afterAll, describe, expect, it } from "vitest";
import { Fleet, fleetOn, profile } from "../../testing/fleet.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import { stopStores, storeKinds } from "../../testing/stores.ts";
import { matchmakerClient } from "../client/index.ts";
import { byCount } from "../functions/by-count.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";

afterAll(stopStores);

const seconds = (count: number) => ({ seconds: BigInt(count), nanos: 0 });

describe("a pool's filter", () => {
  it.each([
    ["a string", { stringEqualsFilters: [{ stringArg: "map", value: "night", dropAfter: "5s" }] }],
    ["a tag", { tagPresentFilters: [{ tag: "night", dropAfter: "5s" }] }],
    ["a double", { doubleRangeFilters: [{ doubleArg: "rank", min: 5, dropAfter: "5s" }] }],
    [
      "a double in a range that widens",
      { doubleRangeFilters: [{ doubleArg: "level", min: 10, widenPerSecond: 2 }] },
    ],
    [
      "a double in an open range that widens",
      {
        doubleRangeFilters: [
          { doubleArg: "level", max: -10, exclude: "EXCLUDE_BOTH", widenPerSecond: 2 },
        ],
      },
    ],
  ])("for %s accepts a ticket once the ticket has waited long enough", async (_, filters) => {
    const pool = fromJson(PoolSchema, { name: "picky", ...filters });
    await using fleet = await Fleet.open({ profiles: [profile({ count: 1, pools: [pool] })] });
    await fleet.serve("a");
    const [id = ""] = await fleet.tickets(1, { searchFields: { doubles: { level: 0 } } });
    await fleet.pass(4_900, 100);
    expect(await fleet.states([id])).toEqual(["WAITING"]);
    await fleet.pass(200, 100);
    expect(await fleet.states([id])).toEqual(["ASSIGNED"]);
  });

  it("without drop_after never accepts a ticket that lacks its field, and with drop_after does not accept a ticket that has ended", async () => {
    const pools = [
      fromJson(PoolSchema, { name: "never", tagPresentFilters: [{ tag: "night" }] }),
      fromJson(PoolSchema, {
        name: "later",
        tagPresentFilters: [{ tag: "day", dropAfter: "5s" }],
      }),
    ];
    await using fleet = await Fleet.open({ profiles: [profile({ count: 2, pools })] });
    await fleet.serve("a");
    const [cancelled = "", waiting = ""] = await fleet.tickets(2);
    await fleet.frontend.cancelTicket({ ticketId: cancelled });
    await fleet.pass(60_000);
    expect(await fleet.states([cancelled, waiting])).toEqual(["CANCELLED", "WAITING"]);
  });

  it.each([
    [
      { doubleRangeFilters: [{ doubleArg: "rank", min: 5, widenPerSecond: -1 }] },
      /widen_per_second of "rank": expected a number of at least 0/,
    ],
    [
      { tagPresentFilters: [{ tag: "night", dropAfter: "0s" }] },
      /pool "p": drop_after of "night": expected a duration greater than 0/,
    ],
  ])("is refused if it is %j", async (filters, message) => {
    await using fleet = await Fleet.open();
    const pools = [fromJson(PoolSchema, { name: "p", ...filters })];
    await expect(fleet.admin.putProfile({ profile: profile({ pools }) })).rejects.toThrow(message);
  });
});

describe.each(storeKinds)("regions, in $name,", ({ isHere, createData }) => {
  const near = create(LatencyLimitSchema, { maxMs: 50, widenPerSecond: 10 });

  it.skipIf(!isHere)(
    "agents that share no region within the limit wait until the limit has widened",
    async () => {
      await using data = await createData();
      const latencyLimit = near;
      await using fleet = await fleetOn(data, {
        profiles: [profile({ latencyLimit, placement: Placement.SPREAD_WORLDS })],
      });
      await fleet.serve("eu", { region: "europe" });
      await fleet.serve("us", { region: "america" });
      const [berlin = ""] = await fleet.tickets(1, { latenciesMs: { europe: 20, america: 90 } });
      const [boston = ""] = await fleet.tickets(1, { latenciesMs: { europe: 95, america: 20 } });
      await fleet.settle();
      expect(await fleet.states([berlin, boston])).toEqual(["WAITING", "WAITING"]);
      await fleet.pass(4_500, 500);
      expect(await fleet.states([berlin, boston])).toEqual(["ASSIGNED", "ASSIGNED"]);
      // The region in which the worst latency is lowest.
      expect((await fleet.ticket(boston)).assignment?.address).toBe("us.test:1");
      expect(
        (await fleet.admin.listServers({})).servers.map(({ region }) => region).sort(),
      ).toEqual(["america", "europe"]);
    },
  );

  it.skipIf(!isHere)("a match is never placed or filled beyond the latency limit", async () => {
    await using data = await createData();
    const latencyLimit = create(LatencyLimitSchema, { maxMs: 50 });
    await using fleet = await fleetOn(data, {
      profiles: [profile({ latencyLimit, backfill: true, precreatedWorlds: 1 })],
    });
    await fleet.serve("us", { region: "america" });
    await fleet.settle();
    const europeans = await fleet.tickets(2, { latenciesMs: { europe: 10, america: 90 } });
    await fleet.settle();
    expect(await fleet.states(europeans)).toEqual(["WAITING", "WAITING"]);
    const [first = "", second = ""] = await fleet.tickets(2, { latenciesMs: { america: 10 } });
    await fleet.settle();
    const server = await fleet.join(first);
    await fleet.join(second);
    await fleet.pass(1_000);
    for (const { tickets } of server.worlds.values()) {
      tickets.delete(second);
    }
    await fleet.pass(1_000);
    expect(await fleet.states([first, second, ...europeans])).toEqual([
      "JOINED",
      "COMPLETED",
      "WAITING",
      "WAITING",
    ]);
    const [anywhere = ""] = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states([anywhere])).toEqual(["ASSIGNED"]);
  });
});

it("matches of a custom function are placed in a region that all of their tickets accept", async () => {
  const latencyLimit = create(LatencyLimitSchema, { maxMs: 50, dropAfter: seconds(60) });
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "custom", value: { name: "pairs" } },
  });
  await using fleet = await Fleet.open({
    profiles: [profile({ latencyLimit, matchFunction, seats: 2 })],
    functions: { pairs: byCount(2) },
  });
  await fleet.serve("us", { region: "america" });
  const ids = await fleet.tickets(2, { latenciesMs: { europe: 20, america: 90 } });
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  await fleet.pass(60_000, 5_000);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it.each([
  [
    { latenciesMs: { europe: -1 } },
    /latencies_ms "europe": expected .* of at least 0, received -1/,
  ],
  [{ latenciesMs: { europe: Number.NaN } }, /latencies_ms "europe"/],
])("a ticket with %j is refused", async (request, message) => {
  await using fleet = await Fleet.open();
  await expect(fleet.frontend.createTicket(request)).rejects.toThrow(message);
});

describe("a priority", () => {
  it("matches a ticket before older tickets with a lower priority", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 2 })] });
    const [old = "", older = ""] = await fleet.tickets(2);
    const [one = "", other = ""] = await fleet.tickets(2, { priority: 5 });
    const [late = ""] = await fleet.tickets(1, { priority: -1 });
    const server = new SimulatedServer("a", { maxWorlds: 1 });
    fleet.servers.add(server);
    await fleet.register(server);
    await fleet.settle();
    expect(await fleet.states([old, older, one, other, late])).toEqual([
      "WAITING",
      "WAITING",
      "ASSIGNED",
      "ASSIGNED",
      "WAITING",
    ]);
  });

  it("may be set only by operators if callers have roles", async () => {
    await using served = await serveMatchmaker({
      profiles: [profile({ count: 1 })],
      authorize: ({ metadata }) =>
        metadata.get("authorization") === "Bearer boss" ? ["agent", "operator"] : ["agent"],
    });
    await expect(matchmakerClient(served.url).findMatch({ priority: 1 })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: "priority: expected 0, received 1; only operators give tickets a priority",
    });
    const operator = matchmakerClient(served.url, { token: "boss" });
    for await (const { state } of operator.find({ priority: 1 })) {
      expect(state).toBe("waiting");
      break;
    }
  });
});
