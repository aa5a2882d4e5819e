// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  ServerState,
  TicketState,
  WatchResponse_Kind,
  WatchResponseSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { expect, test } from "vitest";
import { agentsOf, Fleet, maxChanges } from "./fleet.ts";

/** Applies changes to a new fleet, one a millisecond. */
function fleetOf(...changes: MessageInitShape<typeof WatchResponseSchema>["change"][]): Fleet {
  const fleet = new Fleet();
  for (const [timeMs, change] of changes.entries()) {
    const response = create(WatchResponseSchema, change === undefined ? {} : { change });
    fleet.apply(response.change, timeMs);
  }
  return fleet;
}

const ticket = (id: string, state: TicketState) =>
  ({ case: "ticket", value: { id, state, partySize: 1 } }) as const;

test("tickets are counted by their latest state and are listed newest first", () => {
  const fleet = fleetOf(
    ticket("a", TicketState.WAITING),
    ticket("b", TicketState.WAITING),
    ticket("c", TicketState.WAITING),
    ticket("a", TicketState.JOINED),
    ticket("b", TicketState.JOINED),
    { case: "removed", value: { kind: WatchResponse_Kind.TICKET, id: "b" } },
    { case: "removed", value: { kind: WatchResponse_Kind.TICKET, id: "never seen" } },
  );
  expect([fleet.count(undefined), fleet.count(TicketState.WAITING)]).toEqual([2, 1]);
  expect([fleet.count(TicketState.JOINED), fleet.count(TicketState.FAILED)]).toEqual([1, 0]);
  expect(fleet.tickets(undefined, 10).map(({ id }) => id)).toEqual(["c", "a"]);
  expect(fleet.tickets(undefined, 1).map(({ id }) => id)).toEqual(["c"]);
  expect(fleet.tickets(TicketState.JOINED, 10).map(({ id }) => id)).toEqual(["a"]);
});

test("a ticket's row has its world and error, and no join token", () => {
  const joinToken = "secret";
  const fleet = fleetOf({
    case: "ticket",
    value: {
      id: "a",
      state: TicketState.ASSIGNED,
      createTime: timestampFromMs(5_000),
      partySize: 2,
      profile: "pairs",
      assignment: {
        worldName: "meadow-1",
        address: "host:1",
        joinToken,
        joinTokens: [joinToken, joinToken],
      },
      error: { message: "the world was lost" },
    },
  });
  const rows = fleet.tickets(undefined, 1);
  expect(rows).toEqual([
    {
      id: "a",
      state: TicketState.ASSIGNED,
      createdMs: 5_000,
      partySize: 2,
      profile: "pairs",
      place: "meadow-1 at host:1",
      error: "the world was lost",
    },
  ]);
  expect(JSON.stringify([rows, fleet.changes])).not.toContain(joinToken);
});

test("servers and profiles are replaced and removed, and agents are added up", () => {
  const worlds = [
    { name: "w", agents: 2 },
    { name: "v", agents: 3 },
  ];
  const fleet = fleetOf(
    { case: "server", value: { id: "s", state: ServerState.SERVING } },
    { case: "server", value: { id: "s", state: ServerState.DRAINING, worlds } },
    { case: "server", value: { id: "t", worlds: [{ name: "u", agents: 4 }] } },
    { case: "profile", value: { name: "p" } },
    { case: "profile", value: { name: "q" } },
    { case: "removed", value: { kind: WatchResponse_Kind.PROFILE, id: "p" } },
  );
  expect(fleet.servers).toMatchObject([{ id: "s", state: ServerState.DRAINING }, { id: "t" }]);
  expect(agentsOf(fleet.servers)).toBe(9);
  expect(fleet.profiles.map(({ name }) => name)).toEqual(["q"]);
});

test("changes are described and are listed newest first", () => {
  const fleet = fleetOf(
    { case: "profile", value: { name: "pairs", worldType: "meadow" } },
    {
      case: "server",
      value: { id: "s", state: ServerState.LOST, placedWorlds: 1, placedSeats: 2 },
    },
    {
      case: "match",
      value: { id: "m", profile: "pairs", serverId: "s", teams: [{ ticketIds: ["a", "b"] }] },
    },
    { case: "match", value: { id: "m", profile: "pairs", serverId: "s", worldName: "meadow-1" } },
    ticket("a", TicketState.MATCHED),
    {
      case: "ticket",
      value: { id: "a", state: TicketState.FAILED, error: { message: "no room" } },
    },
    { case: "removed", value: { kind: WatchResponse_Kind.MATCH, id: "m" } },
    undefined,
  );
  expect(fleet.changes.map(({ number, timeMs }) => [number, timeMs]).slice(0, 2)).toEqual([
    [8, 7],
    [7, 6],
  ]);
  expect(fleet.changes.map(({ kind, id, text }) => [kind, id, text]).reverse()).toEqual([
    ["profile", "pairs", "world meadow"],
    ["server", "s", "lost, 1 worlds, 2 seats"],
    ["match", "m", "pairs, 2 tickets in a world that is being created on s"],
    ["match", "m", "pairs, 0 tickets in meadow-1 on s"],
    ["ticket", "a", "matched"],
    ["ticket", "a", "failed: no room"],
    ["match", "m", "removed"],
    ["unknown", "", "a change that this version of the page does not know"],
  ]);
});

test("only the latest changes are kept", () => {
  const fleet = fleetOf(
    ...Array.from({ length: maxChanges + 5 }, (_, index) =>
      ticket(`ticket-${index}`, TicketState.WAITING),
    ),
  );
  expect(fleet.changes).toHaveLength(maxChanges);
  expect(fleet.changes.at(-1)?.id).toBe("ticket-5");
});
