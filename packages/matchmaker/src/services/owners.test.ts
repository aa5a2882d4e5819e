// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { as, byName } from "../../testing/callers.ts";
import { House } from "../../testing/house.ts";
import { pairs } from "../../testing/pairs.ts";
import { serveCounting } from "../../testing/world-server.ts";
import { matchmakerClient } from "../client/index.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";

/** Calls that any caller may try with the id of a ticket. */
function callsOf(house: House, ticketId: string, ticketSecret: string, name: string) {
  const request = { ticketId, ticketSecret };
  return [
    () => house.frontend.getTicket(request, as(name)),
    () => house.frontend.watchTicket(request, as(name))[Symbol.asyncIterator]().next(),
    () => house.frontend.cancelTicket(request, as(name)),
  ];
}

describe("a ticket", () => {
  it.each([
    ["a caller with another secret", "mine", "a guess", "alice"],
    ["a caller without a secret", "mine", "", "alice"],
    ["another caller with the right secret", "mine", "mine", "bob"],
    ["another caller, if the ticket has no secret", "", "", "bob"],
  ])("is not visible to %s", async (_, ticketSecret, shown, name) => {
    await using house = await House.open({ authorize: byName });
    const request = { ticketId: "t", ticketSecret };
    await house.frontend.createTicket(request, as("alice"));
    for (const call of callsOf(house, "t", shown, name)) {
      await expect(call()).rejects.toThrow(/\[not_found\] unknown ticket "t"/);
    }
    // A successful create would return the existing ticket with its join token.
    await expect(
      house.frontend.createTicket({ ticketId: "t", ticketSecret: shown }, as(name)),
    ).rejects.toThrow(/\[already_exists\]/);
    for (const call of callsOf(house, "t", ticketSecret, "alice")) {
      await call();
    }
  });

  it("is visible to operators", async () => {
    await using house = await House.open({ authorize: byName });
    await house.frontend.createTicket({ ticketId: "t", ticketSecret: "mine" }, as("alice"));
    for (const call of callsOf(house, "t", "", "operator")) {
      await call();
    }
  });

  it("without a secret is visible to any caller with its id, if authorize is not configured", async () => {
    await using house = await House.open();
    await house.frontend.createTicket({ ticketId: "open" });
    for (const call of callsOf(house, "open", "", "anybody")) {
      await call();
    }
    await house.frontend.createTicket({ ticketId: "closed", ticketSecret: "mine" });
    for (const call of callsOf(house, "closed", "", "anybody")) {
      await expect(call()).rejects.toThrow(/\[not_found\]/);
    }
  });

  it("of a client is visible to that client, and to clients with the same secret", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using _registered = await serveCounting(served.url);
    const mine = matchmakerClient(served.url, { ticketSecret: "shared" });
    const [match] = await Promise.all([mine.findMatch(), mine.findMatch()]);
    const stranger = matchmakerClient(served.url);
    await expect(stranger.get(match.ticketId)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(stranger.cancel(match.ticketId)).rejects.toMatchObject({ code: "NOT_FOUND" });
    const partner = matchmakerClient(served.url, { ticketSecret: "shared" });
    expect(await partner.get(match.ticketId)).toMatchObject({
      state: "assigned",
      assignment: { joinToken: match.joinToken },
    });
  });
});
