// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { FrontendService } from "@dm-env-rpc/protocol/matchmaker";
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Fleet } from "../../../testing/fleet.ts";
import { pairs } from "../../../testing/pairs.ts";
import { serveCounting } from "../../../testing/world-server.ts";
import { matchmakerClient } from "../../client/index.ts";
import { serveMatchmaker } from "../../serve-matchmaker.ts";

const large = () => ({
  extensions: { photo: { typeUrl: "type.googleapis.com/photo", value: new Uint8Array(15_000) } },
});

it("tickets past the memory limit are refused, and the error says when to retry", async () => {
  await using fleet = await Fleet.open({ settings: { maxTicketsBytes: 100_000 } });
  const ids: string[] = [];
  let refused: unknown;
  while (refused === undefined) {
    await fleet.frontend.createTicket(large()).then(
      ({ ticket }) => ids.push(ticket?.id ?? ""),
      (error: unknown) => {
        refused = error;
      },
    );
  }
  // 20 KB each, in base64.
  expect(ids).toHaveLength(4);
  expect(refused).toBeInstanceOf(ConnectError);
  expect(String(refused)).toMatch(/\[resource_exhausted\] .*\(limit: maxTicketsBytes\)/);
  expect(ConnectError.from(refused).metadata.get("retry-after")).toBe("5");
  // A small ticket still fits; another large ticket fits once the first one is deleted.
  await fleet.frontend.createTicket({});
  await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
  await fleet.pass(400_000, 100_000);
  await fleet.frontend.createTicket(large());
});

it("tickets that are created concurrently stay within the memory limit together", async () => {
  await using fleet = await Fleet.open({ settings: { maxTicketsBytes: 100_000 } });
  const created = await Promise.allSettled(
    Array.from({ length: 20 }, () => fleet.frontend.createTicket(large())),
  );
  expect(created.filter(({ status }) => status === "fulfilled")).toHaveLength(4);
});

it("a repeated create returns the existing ticket even if there is no room for another", async () => {
  await using fleet = await Fleet.open({ settings: { maxTicketsBytes: 30_000 } });
  const request = { ...large(), ticketId: "mine" };
  await fleet.frontend.createTicket(request);
  await expect(fleet.frontend.createTicket({ ...large(), ticketId: "other" })).rejects.toThrow(
    /resource_exhausted/,
  );
  expect((await fleet.frontend.createTicket(request)).ticket?.id).toBe("mine");
});

it("a client that is refused for lack of room retries, and is matched", async () => {
  await using served = await serveMatchmaker({
    profiles: [pairs],
    settings: { maxTickets: 2, retainMs: 100 },
  });
  const matchmaker = matchmakerClient(served.url, { timeoutMs: 60_000 });
  const leaving = new AbortController();
  const alone = matchmaker.findMatch({ profile: "pairs" }, { signal: leaving.signal });
  const gone = expect(alone).rejects.toMatchObject({ code: "CANCELLED" });
  const first = matchmaker.findMatch();
  await expect.poll(() => served.matchmaker.counts().tickets.waiting).toBe(2);
  const second = matchmaker.findMatch();
  leaving.abort();
  await gone;
  await using _registered = await serveCounting(served.url);
  const [one, other] = await Promise.all([first, second]);
  expect(one.worldName).toBe(other.worldName);
});

it.each([
  [
    "has no room, for its retry-after and at most as long again",
    Code.ResourceExhausted,
    0,
    [5_000, 5_000, 5_000],
  ],
  [
    "has no room, for its retry-after and at most as long again",
    Code.ResourceExhausted,
    1,
    [10_000, 10_000, 10_000],
  ],
  [
    "does not answer, each time longer, at least half of the bound",
    Code.Unavailable,
    0,
    [125, 250, 500, 1_000, 1_000],
  ],
  [
    "does not answer, each time longer, at most 2 s",
    Code.Unavailable,
    1,
    [250, 500, 1_000, 2_000, 2_000],
  ],
])("a client waits for a matchmaker that %s", async (_, code, jitter, expected) => {
  const failures = expected.map(
    () => new ConnectError("later", code, code === Code.Unavailable ? {} : { "retry-after": "5" }),
  );
  const transport = createRouterTransport(({ service }) => {
    service(FrontendService, {
      createTicket() {
        throw failures.shift() ?? new ConnectError("enough", Code.InvalidArgument);
      },
    });
  });
  const pauses: number[] = [];
  const time: TimeSource = {
    ...systemTime,
    after(delayMs, callback) {
      pauses.push(delayMs);
      return systemTime.after(1, callback);
    },
  };
  const client = matchmakerClient("a.test:1", {
    transports: [transport],
    time,
    random: () => jitter,
  });
  await expect(client.findMatch()).rejects.toThrow(/enough/);
  expect(pauses).toEqual(expected);
});
