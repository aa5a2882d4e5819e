// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { serveRelay } from "@dm-env-rpc/relay";
import { bundle, installedBrowsers, openScript } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";

const token = "token-of-the-tabs";

/** A machine may pause for seconds. */
const patient = { timeoutMs: 60_000 };

/** A tab whose server a matchmaker uses for worlds of two agents; it can also play as one of the agents. */
const tab = `
  import { connect } from "@dm-env-rpc/client";
  import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
  import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
  import { createEnvironmentServer, defineWorld, dialOut, lockstep } from "@dm-env-rpc/server";
  import { t } from "@dm-env-rpc/tensor-codec";

  const sum = defineWorld({
    name: "sum",
    agents: { min: 2, max: 2 },
    actions: { add: t.int32() },
    observations: { total: t.int32() },
    clock: lockstep(),
    create() {
      let total = 0;
      return {
        start: () => void (total = 0),
        step(actions) {
          for (const { add = 0 } of actions.values()) total += add;
        },
        observe: { total: () => total },
      };
    },
  });
  globalThis.serveTab = async (relay, token, matchmakers) => {
    const registered = await serveRegistered(
      async (hooks) => {
        const server = createEnvironmentServer({ worlds: [sum], ...hooks });
        const place = await dialOut(server, { relay, token });
        return {
          url: place.address,
          worlds: () => server.worlds(),
          close: async (options) => {
            await server.close(options);
            await place.close();
          },
        };
      },
      { matchmakers, maxWorlds: 1, maxAgents: 2, worldTypes: ["sum"], timeoutMs: 60_000 },
    );
    await registered.registration.registered;
    return registered.server.url;
  };
  globalThis.playMatch = async (matchmakers) => {
    const ticket = await matchmakerClient(matchmakers, { timeoutMs: 60_000 }).findMatch();
    const address = ticket.address.replace("http", "ws");
    const environment = await joinMatch({ ...ticket, address });
    await environment.reset();
    const { observation } = await environment.step({ add: 2 });
    await environment.close();
    return { address: ticket.address, total: observation.total };
  };
`;

declare global {
  var serveTab: (relay: string, token: string, matchmakers: string) => Promise<string>;
  var playMatch: (matchmakers: string) => Promise<{ address: string; total: number }>;
}

const pairs = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "all" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: "sum",
});

describe.each(installedBrowsers)("tabs of $name at a matchmaker", (browser) => {
  test("are servers: agents receive a tab's address with their tickets, and another tab's after that tab is closed", async () => {
    const { script } = await bundle(tab, import.meta.dirname);
    await using first = await openScript(browser, script, "playMatch");
    const allowedOrigins = [first.origin];
    await using relay = await serveRelay({
      programs: [{ name: "tab", token, maxPrograms: 2 }],
      allowedOrigins,
      // A tab that stalls with the machine is not lost.
      limits: { programPingMs: 60_000 },
    });
    await using matchmaker = await serveMatchmaker({ profiles: [pairs], allowedOrigins });
    const serve = (page: typeof first.page): Promise<string> =>
      page.evaluate(
        (...given) => globalThis.serveTab(...given),
        relay.url.replace("http", "ws"),
        token,
        matchmaker.url,
      );
    const addresses = [await serve(first.page)];
    const second = await first.page.browser().newPage();
    await second.goto(first.origin);
    await second.waitForFunction(() => globalThis.playMatch !== undefined);
    addresses.push(await serve(second));
    expect(relay.programs().map(({ address }) => address)).toEqual(addresses);

    const client = matchmakerClient(matchmaker.url, patient);
    const match = async () => {
      const tickets = await Promise.all([client.findMatch(), client.findMatch()]);
      const [address, other] = tickets.map((ticket) => ticket.address);
      expect(other).toBe(address);
      const agents = await Promise.all(tickets.map((ticket) => joinMatch(ticket)));
      await Promise.all(agents.map((agent) => agent.reset()));
      const steps = await Promise.all(agents.map((agent) => agent.step({ add: 3 })));
      expect(steps.map(({ observation }) => observation["total"])).toEqual([6, 6]);
      return { address: address ?? "", agents };
    };
    const [one, other] = [await match(), await match()];
    expect([one.address, other.address].sort()).toEqual([...addresses].sort());

    // The first tab is killed, and the second one has room again.
    const [lost, kept] = one.address === addresses[0] ? [one, other] : [other, one];
    const pending = lost.agents[0]?.step({ add: 1 });
    const failure = expect(pending).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await first.page.close();
    await failure;
    await Promise.all(kept.agents.map((agent) => agent.close()));
    const inPage = second.evaluate((url) => globalThis.playMatch(url), matchmaker.url);
    const ticket = await client.findMatch();
    const environment = await joinMatch(ticket);
    await environment.reset();
    await environment.step({ add: 5 });
    expect(await inPage).toEqual({ address: addresses[1], total: 7 });
    expect(ticket.address).toBe(addresses[1]);
  });
});
