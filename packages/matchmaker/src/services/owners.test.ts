// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { as, byName } from "../../testing/callers.ts";
import { Fleet } from "../../testing/fleet.ts";
import { pairs } from "../../testing/pairs.ts";
import { serveCounting } from "../../testing/world-server.ts";
import { matchmakerClient } from "../client/index.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";

/** Calls that any caller may try with the id of a ticket. */
function callsOf(fleet: Fleet, ticketId: string, ticketSecret: string, name: string) {
  const request = { ticketId, ticketSecret };
  return [
    () => fleet.frontend.getTicket(request, as(name)),
    () => fleet.frontend.watchTicket(request, as(name))[Symbol.asyncIterator]().next(),
    () => fleet.frontend.cancelTicket(request, as(name)),
  ];
}

describe("a ticket", () => {
  it.each([
    ["a caller with another secret", "mine", "a guess", "alice"],
    ["a caller without a secret", "mine", "", "alice"],
    ["another caller with the right secret", "mine", "mine", "bob"],
    ["another caller, if the ticket has no secret", "", "", "bob"],
  ])("is not visible to %s", async (_, ticketSecret, shown, name) => {
    await using fleet = await Fleet.open({ authorize: byName });
    const request = { ticketId: "t", ticketSecret };
    await fleet.frontend.createTicket(request, as("alice"));
    for (const call of callsOf(fleet, "t", shown, name)) {
      await expect(call()).rejects.toThrow(/\[not_found\] unknown ticket "t"/);
    }
    // A successful create would return the existing ticket with its join token.
    await expect(
      fleet.frontend.createTicket({ ticketId: "t", ticketSecret: shown }, as(name)),
    ).rejects.toThrow(/\[already_exists\]/);
    for (const call of callsOf(fleet, "t", ticketSecret, "alice")) {
      await call();
    }
  });

  it("is visible to operators", async () => {
    await using fleet = await Fleet.open({ authorize: byName });
    await fleet.frontend.createTicket({ ticketId: "t", ticketSecret: "mine" }, as("alice"));
    for (const call of callsOf(fleet, "t", "", "operator")) {
      await call();
    }
  });

  it("without a secret is visible to any caller with its id, if authorize is not configured", async () => {
    await using fleet = await Fleet.open();
    await fleet.frontend.createTicket({ ticketId: "open" });
    for (const call of callsOf(fleet, "open", "", "anybody")) {
      await call();
    }
    await fleet.frontend.createTicket({ ticketId: "closed", ticketSecret: "mine" });
    for (const call of callsOf(fleet, "closed", "", "anybody")) {
      await expect(call()).rejects.toThrow(/\[not_found\]/);
    }
  });

  it("needs a secret, if authorize does not identify its creator", async () => {
    await using fleet = await Fleet.open({
      authorize: ({ metadata }) => [metadata.get("name") === "operator" ? "operator" : "agent"],
    });
    await expect(fleet.frontend.createTicket({ ticketId: "t" }, as("anybody"))).rejects.toThrow(
      "[invalid_argument] ticket_secret: expected a secret, because this matchmaker does not identify its callers, received none; send the same random secret with each call about the ticket",
    );
    expect(fleet.matchmaker.counts().tickets.waiting).toBe(0);
    const request = { ticketId: "t", ticketSecret: "mine" };
    await fleet.frontend.createTicket(request, as("anybody"));
    for (const call of callsOf(fleet, "t", "", "anybody")) {
      await expect(call()).rejects.toThrow(/\[not_found\]/);
    }
    for (const call of callsOf(fleet, "t", "mine", "anybody")) {
      await call();
    }
    await fleet.frontend.createTicket({}, as("operator"));
  });

  it("cannot be created, read, followed or cancelled with a secret that is too long", async () => {
    await using fleet = await Fleet.open();
    await fleet.frontend.createTicket({ ticketId: "t", ticketSecret: "s".repeat(1_000) });
    const request = { ticketId: "t", ticketSecret: "s".repeat(1_001) };
    for (const call of [
      () => fleet.frontend.createTicket(request),
      ...callsOf(fleet, "t", request.ticketSecret, "anybody"),
    ]) {
      await expect(call()).rejects.toThrow(
        /\[invalid_argument\] ticket_secret: expected at most 1000 characters, received 1001; use a shorter secret$/,
      );
    }
    expect(fleet.matchmaker.counts().tickets.waiting).toBe(1);
  });

  it("of a client is visible to that client, and to clients with the same secret", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    const patient = { timeoutMs: 60_000 };
    const mine = matchmakerClient(served.url, { ...patient, ticketSecret: "shared" });
    const [match] = await Promise.all([mine.findMatch(), mine.findMatch()]);
    const stranger = matchmakerClient(served.url, patient);
    await expect(stranger.get(match.ticketId)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(stranger.cancel(match.ticketId)).rejects.toMatchObject({ code: "NOT_FOUND" });
    const partner = matchmakerClient(served.url, { ...patient, ticketSecret: "shared" });
    expect(await partner.get(match.ticketId)).toMatchObject({
      state: "assigned",
      assignment: { joinToken: match.joinToken },
    });
  });
});
