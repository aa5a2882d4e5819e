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

it("the error of a token whose agent is still in the world says how long to try again, and after it has left, to create another ticket", async () => {
  const { seats } = open();
  const seat = await seats.take("one", "world");
  await expect(seats.take("one", "world")).rejects.toMatchObject({
    code: "PERMISSION_DENIED",
    message: expect.stringMatching(
      /has been taken by an agent that is still in the world; if that agent has lost its connection and the world has onDrop, try again: .*; otherwise create another ticket$/,
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
