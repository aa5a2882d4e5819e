// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import type { TokenVerifier } from "../tokens/verifier.ts";
import { createSeats } from "./seats.ts";

/**
 * Creates seats whose tokens are `TICKET`, `TICKET/SEAT` or `TICKET/SEAT/EXPIRY`, and are valid until 30,000 or their
 * expiry.
 */
function open({ partySize = 1 } = {}) {
  let nowMs = 0;
  let changes = 0;
  const verifier: TokenVerifier = {
    async join(token = "", worldName, isHeld = () => false) {
      const [ticketId = "", seatId = ticketId, expiry = "30000"] = token.split("/");
      const expiresMs = Number(expiry);
      if (nowMs >= expiresMs && !isHeld(seatId)) {
        throw new DmEnvRpcError("UNAUTHENTICATED", "this join token expired");
      }
      const part = { team: "red", role: "scout", data: { map: "night" } };
      return { ticketId, seatId, worldName, matchId: "match", part, partySize, expiresMs };
    },
    operator: async () => {},
  };
  const seats = createSeats(
    verifier,
    () => nowMs,
    () => {
      changes += 1;
    },
  );
  return {
    seats,
    pass: (ms: number) => {
      nowMs += ms;
    },
    changes: () => changes,
  };
}

it("a seat has the team, role, match id and data of its agent", async () => {
  const { seats } = open();
  const { settings, key } = await seats.take("one", "world");
  expect(settings).toEqual({ team: "red", role: "scout", map: "night", match_id: "match" });
  expect(key).toBe("one");
});

it("a seat that its world holds is taken one more time, even with an expired token, but only by the seat's own agent", async () => {
  const { seats, pass } = open();
  const held = await seats.take("one", "world");
  const other = await seats.take("two", "world");
  held.hold();
  pass(30_000);
  const back = await seats.take("one", "world");
  expect(seats.ticketsIn("world")).toEqual(["one", "two"]);
  await expect(seats.take("one", "world")).rejects.toThrow(/expired/);
  await expect(seats.take("two", "world")).rejects.toThrow(/expired/);
  back.leave();
  other.leave();
  other.hold();
  expect(seats.leftFrom("world")).toEqual(["one", "two"]);
  await expect(seats.take("two", "world")).rejects.toThrow(/expired/);
});

it("a held seat is taken by only one of two agents with the same expired token, also while a server has many seats", async () => {
  const { seats, pass } = open();
  const takeOthers = async (count: number, prefix: string): Promise<void> => {
    for (let index = 0; index < count; index++) {
      await seats.take(`${prefix}${index}/${prefix}${index}/100000`, "world");
    }
  };
  const held = await seats.take("one", "world");
  held.hold();
  pass(30_001);
  // The server forgets expired seats when it has 1,024 seats, and then when it has 2,046.
  await takeOthers(1_023, "a");
  await takeOthers(1_022, "b");
  const attempts = await Promise.allSettled([
    seats.take("one", "world"),
    seats.take("one", "world"),
  ]);
  expect(attempts.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
});

it("a seat is taken again by an agent with the same seat key, even with an expired token, and only its last call counts", async () => {
  const { seats, pass } = open();
  const key = "the agent's own key";
  const first = await seats.take("one", "world", key);
  const keyless = await seats.take("two", "world");
  for (const [token, other] of [
    ["one", undefined],
    ["one", "a key that was guessed"],
    ["two", key],
    ["two", undefined],
  ] as const) {
    await expect(seats.take(token, "world", other)).rejects.toThrow(/has been taken/);
  }
  pass(30_000);
  const second = await seats.take("one", "world", key);
  // The world has refused the agent, so its first stream still has the seat.
  const refused = await seats.take("one", "world", key);
  refused.giveBack();
  expect(seats.agentsIn("world")).toBe(2);
  second.leave();
  first.hold();
  first.giveBack();
  expect(seats.ticketsIn("world")).toEqual(["two"]);
  expect(seats.leftFrom("world")).toEqual(["one"]);
  await expect(seats.take("one", "world", key)).rejects.toThrow(/expired/);
  keyless.leave();
});

it("the loss of a stream whose agent has taken its seat again has no effect", async () => {
  const { seats } = open();
  const first = await seats.take("one", "world", "key");
  const second = await seats.take("one", "world", "key");
  first.leave();
  first.hold();
  first.giveBack();
  expect(seats.ticketsIn("world")).toEqual(["one"]);
  expect(seats.leftFrom("world")).toEqual([]);
  await expect(seats.take("one", "world")).rejects.toThrow(/has been taken/);
  second.leave();
  expect(seats.leftFrom("world")).toEqual(["one"]);
});

it.each<["has left" | "is lost", readonly string[]]>([
  ["has left", ["one"]],
  ["is lost", []],
])(
  "if the earlier stream %s before the world refuses the new one, the seat is as that stream leaves it",
  async (how, left) => {
    const { seats, pass } = open();
    const first = await seats.take("one", "world", "key");
    const second = await seats.take("one", "world", "key");
    if (how === "has left") {
      first.leave();
    } else {
      first.hold();
    }
    second.giveBack();
    expect(seats.leftFrom("world")).toEqual(left);
    expect(seats.agentsIn("world")).toBe(1 - left.length);
    pass(30_000);
    // Only a held seat can be taken again without the key.
    const again = await seats.take("one", "world").then(
      () => "taken",
      () => "refused",
    );
    expect(again).toBe(how === "is lost" ? "taken" : "refused");
  },
);

it("a seat keeps the agent that is in the world if two later streams of it are refused, in any order", async () => {
  for (const order of [
    [0, 1],
    [1, 0],
  ]) {
    const { seats } = open();
    const first = await seats.take("one", "world", "key");
    const later = [
      await seats.take("one", "world", "key"),
      await seats.take("one", "world", "key"),
    ];
    for (const index of order) {
      later[index]?.giveBack();
    }
    expect(seats.ticketsIn("world")).toEqual(["one"]);
    first.leave();
    expect([seats.ticketsIn("world"), seats.leftFrom("world")]).toEqual([[], ["one"]]);
  }
});

it("the error of a token whose agent is still in the world says how long to try again, and after it has left, to create another ticket", async () => {
  const { seats } = open();
  const seat = await seats.take("one", "world");
  await expect(seats.take("one", "world")).rejects.toMatchObject({
    code: "PERMISSION_DENIED",
    message: expect.stringMatching(
      /has been taken by an agent that is still in the world; if that agent has lost its connection and the world has onDrop, try again: .*\. Otherwise create another ticket$/,
    ),
  });
  seat.hold();
  const back = await seats.take("one", "world");
  back.leave();
  await expect(seats.take("one", "world")).rejects.toThrow(
    /received a token whose seat has been taken; create another ticket$/,
  );
});

it("an agent that leaves twice is counted once, and onChange is called once for each change", async () => {
  const { seats, changes } = open();
  const seat = await seats.take("one", "world");
  expect(changes()).toBe(1);
  seat.leave();
  seat.leave();
  seat.giveBack();
  expect(changes()).toBe(2);
  expect(seats.leftFrom("world")).toEqual(["one"]);
  const refused = await seats.take("two", "world");
  refused.giveBack();
  refused.giveBack();
  expect(changes()).toBe(4);
});

it("agents that leave after a report are in the next report", async () => {
  const { seats } = open();
  const [first, second] = [await seats.take("one", "world"), await seats.take("two", "world")];
  first.leave();
  const reported = seats.leftFrom("world");
  second.leave();
  seats.told("world", reported);
  expect(seats.leftFrom("world")).toEqual(["two"]);
  seats.told("world", ["two"]);
  expect(seats.leftFrom("world")).toEqual([]);
});

it("a party has left once its last agent has left, even if a report was sent in between", async () => {
  const { seats } = open({ partySize: 2 });
  const first = await seats.take("party/1", "world");
  const second = await seats.take("party/2", "world");
  expect(seats.ticketsIn("world")).toEqual(["party"]);
  first.leave();
  expect(seats.leftFrom("world")).toEqual([]);
  seats.keep(new Set(["world"]));
  second.leave();
  expect(seats.leftFrom("world")).toEqual(["party"]);
});

it("agentsIn counts each agent, also of a party, that took a seat and has neither left nor been refused", async () => {
  const { seats } = open({ partySize: 3 });
  expect(seats.agentsIn("world")).toBe(0);
  const [first, second] = [
    await seats.take("party/1", "world"),
    await seats.take("party/2", "world"),
  ];
  await seats.take("party/3", "world");
  await seats.take("other/4", "elsewhere");
  expect([seats.agentsIn("world"), seats.agentsIn("elsewhere")]).toEqual([3, 1]);
  first.leave();
  expect(seats.agentsIn("world")).toBe(2);
  // The seat of an agent that was reported stays reserved after the world refused it.
  expect(seats.ticketsIn("world")).toEqual(["party"]);
  second.giveBack();
  expect(seats.agentsIn("world")).toBe(1);
});

it("a seat stays taken until its token has expired, even after 10,000 other seats", async () => {
  const { seats, pass } = open();
  for (let count = 0; count < 10_000; count++) {
    (await seats.take(`t${count}`, `w${count % 1_000}`)).leave();
  }
  await expect(seats.take("t0", "w0")).rejects.toThrow(/has been taken/);
  pass(29_999);
  await expect(seats.take("t1", "w1")).rejects.toThrow(/has been taken/);
});
