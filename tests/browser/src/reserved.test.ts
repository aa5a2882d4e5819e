// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient, pageOf } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";
import { says } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

/** A machine may pause for seconds. */
const patient = { timeoutMs: 60_000 };

/** A world of two agents, which holds the seat of one that is lost. */
const sum = defineWorld({
  name: "sum",
  agents: { min: 2, max: 2 },
  onDrop: { holdMs: 120_000 },
  actions: { add: t.int8({ min: 0, max: 2 }) },
  observations: { total: t.int32() },
  clock: lockstep(),
  create() {
    let total = 0;
    return {
      step(actions) {
        for (const { add = 0 } of actions.values()) {
          total += add;
        }
      },
      observe: { total: () => total },
    };
  },
});

const pairs = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "everyone" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: "sum",
});

/** Serves a matchmaker and a server with a page, which spectators may watch. */
async function matched() {
  const resources = new AsyncDisposableStack();
  const matchmaker = resources.use(await serveMatchmaker({ profiles: [pairs] }));
  const registered = resources.use(
    await serveRegistered(
      (hooks) =>
        serve({
          worlds: [sum],
          page: true,
          ...hooks,
          authorize: async (peer) => [...(await hooks.authorize(peer)), "spectator"],
        }),
      {
        matchmakers: matchmaker.url,
        worldTypes: ["sum"],
        maxWorlds: 2,
        maxAgents: 4,
        ...patient,
      },
    ),
  );
  await registered.registration.registered;
  const client = matchmakerClient(matchmaker.url, patient);
  const [person, agent] = await Promise.all([client.findMatch(), client.findMatch()]);
  return {
    client,
    server: registered.server,
    person,
    agent,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

describe.each(chromium)("a person in $name with a join token", (browser) => {
  test("plays the match of their ticket, and resumes their seat after a reload", async () => {
    await using match = await matched();
    const { person, server, client } = match;
    await using agent = await joinMatch(match.agent);
    await using opened = await openPage(browser, pageOf(person));
    const { page } = opened;
    await agent.reset();
    await says(page, "Your turn");
    await expect.poll(async () => (await client.get(person.ticketId)).state).toBe("joined");
    const stepped = agent.step({ add: 1 });
    await page.keyboard.press("2");
    expect((await stepped).observation["total"]).toBe(3);
    await says(page, /What you observe[\s\S]*total \[\]\s*3/);

    await page.reload();
    await says(page, /Your turn|Waiting for the sequence/);
    const next = agent.step({ add: 1 });
    await says(page, "Your turn");
    await page.keyboard.press("2");
    await next;
    expect(server.worlds()).toMatchObject([{ agents: 2 }]);
    expect((await client.get(person.ticketId)).state).toBe("joined");
    await page.locator("::-p-text(Leave)").click();
    await says(page, "You have left");
    await expect.poll(() => server.worlds()[0]?.agents).toBe(1);
    expect(opened.errors).toEqual([]);
  });
});

describe.each(chromium)("the page in $name of a server with join tokens", (browser) => {
  test("says why a token is refused", async () => {
    await using match = await matched();
    const forged = { ...match.person, joinToken: "forged" };
    await using opened = await openPage(browser, pageOf(forged));
    await says(opened.page, /You have left[\s\S]*a token that the matchmaker issued/);
    expect(match.server.worlds()).toMatchObject([{ agents: 0 }]);
  });

  test("shows the worlds to a person without a token, and offers no seat", async () => {
    await using match = await matched();
    await using agent = await joinMatch(match.agent);
    await using opened = await openPage(browser, match.server.url);
    const { page } = opened;
    await says(page, match.person.worldName);
    await page.goto(`${match.server.url}/#/world/${match.person.worldName}`);
    await says(page, "1 agent");
    const buttons = await page.$$eval("header button", (all) =>
      all.map(({ textContent }) => textContent),
    );
    expect(buttons).toEqual(["Pause"]);
    expect(agent.world).toBe(match.person.worldName);
  });
});

test("the page of an assignment has its token in the fragment", () => {
  const assignment = { address: "play.example.org:8980", worldName: "a/b?c", joinToken: "x&y=z" };
  expect(pageOf(assignment)).toBe(
    "http://play.example.org:8980/#/world/a%2Fb%3Fc?join_token=x%26y%3Dz",
  );
  const url = new URL(pageOf({ ...assignment, address: "https://play.example.org/" }));
  expect([url.origin, url.pathname, url.search]).toEqual(["https://play.example.org", "/", ""]);
});
