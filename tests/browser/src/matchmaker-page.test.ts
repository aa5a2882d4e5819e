// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import { type MatchmakerServer, serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { type MatchProfile, MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { lockstep, serve } from "@dm-env-rpc/server";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import type { Page } from "puppeteer-core";
import { describe, expect, test } from "vitest";
import { violationsOf } from "./axe.ts";
import { says, textOf } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

const token = "token-of-an-operator";

/** A machine may pause for seconds. */
const patient = { timeoutMs: 60_000 };

/** A profile that matches pairs of tickets. */
function pairs(name = "pairs"): MatchProfile {
  return create(MatchProfileSchema, {
    name,
    pools: [{ name: "everyone" }],
    matchFunction: { function: { case: "byCount", value: { count: 2 } } },
    worldType: "gridworld",
  });
}

/** Serves a matchmaker with a page, whose operators need a token. */
function serving(options: Parameters<typeof serveMatchmaker>[0] = {}): Promise<MatchmakerServer> {
  return serveMatchmaker({
    profiles: [pairs()],
    page: true,
    authorize: ({ metadata }) =>
      metadata.get("authorization") === `Bearer ${token}`
        ? ["agent", "server", "operator"]
        : ["agent", "server"],
    ...options,
  });
}

/** Serves gridworlds for a matchmaker. */
async function serveBoards(matchmaker: MatchmakerServer) {
  const registered = await serveRegistered(
    (hooks) => serve({ worlds: [gridworld(lockstep())], ...hooks }),
    {
      matchmakers: matchmaker.url,
      worldTypes: ["gridworld"],
      maxWorlds: 10,
      maxAgents: 20,
      region: "north",
      ...patient,
    },
  );
  await registered.registration.registered;
  return registered;
}

async function signIn(page: Page, given: string): Promise<void> {
  const input = await page.waitForSelector('input[type="password"]');
  await input?.type(given);
  await page.keyboard.press("Enter");
}

/** Opens a section of the page, and waits until the page shows it. */
async function goTo(page: Page, section: string): Promise<void> {
  await page.locator(`nav ::-p-text(${section})`).click();
  await page.waitForSelector(`nav [aria-current="page"]::-p-text(${section})`);
}

describe.each(chromium)("the page of a matchmaker in $name", (browser) => {
  test("shows an operator the servers, worlds, tickets, profiles and changes as they happen", async () => {
    await using matchmaker = await serving();
    await using opened = await openPage(browser, matchmaker.url);
    const { page } = opened;
    await says(page, 'expected a caller with the role "operator"');
    await signIn(page, token);
    await says(page, "No server is registered.");
    await using registered = await serveBoards(matchmaker);
    const { serverId } = registered.registration;
    await says(page, new RegExp(`${serverId}\\s+serving\\s+north\\s+${registered.server.url}`));

    await goTo(page, "Tickets");
    await says(page, "There is no ticket.");
    const client = matchmakerClient(matchmaker.url, patient);
    const first = client.findMatch();
    await says(page, /Tickets waiting\s+1[\s\S]*\bwaiting\s+\d+ s\s+1\b/);
    const tickets = await Promise.all([first, client.findMatch()]);
    await using _one = await joinMatch(tickets[0]);
    await using _two = await joinMatch(tickets[1]);
    const [{ worldName, joinToken }] = tickets;
    await says(page, new RegExp(`\\bjoined[\\s\\S]*${worldName} at ${registered.server.url}`));
    await says(page, /Tickets waiting\s+0\s+Tickets joined\s+2\s/);
    await page.select("select", "5");
    await says(page, "No ticket is in this state.");
    await page.select("select", "4");
    await says(page, tickets[0].ticketId);

    await goTo(page, "Worlds");
    await says(page, new RegExp(`${worldName}\\s+gridworld\\s+${serverId}\\s+\\S+\\s+2\\s`));
    await goTo(page, "Profiles");
    await says(page, /pairs\s+byCount\s+everyone\s+gridworld\s+–\s+no/);
    await goTo(page, "Changes");
    await says(page, new RegExp(`ticket\\s+${tickets[1].ticketId}\\s+joined`));
    const html = await page.content();
    expect(html).not.toContain(joinToken);
    expect(opened.errors.filter((error) => !/40[13]/.test(error))).toEqual([]);
  });

  test("drains a server once its operator has confirmed it, by keyboard, too", async () => {
    await using matchmaker = await serving();
    await using first = await serveBoards(matchmaker);
    await using second = await serveBoards(matchmaker);
    const [one, two] = [first, second].map(({ registration }) => registration.serverId);
    await using opened = await openPage(browser, matchmaker.url);
    const { page } = opened;
    await signIn(page, token);
    await page.locator(`button[aria-label="Drain ${one}"]`).click();
    await says(page, `${one} receives no more worlds`);
    await page.locator("dialog ::-p-text(Cancel)").click();
    await page.waitForFunction(() => document.querySelector("dialog") === null);
    await says(page, new RegExp(`${one}\\s+serving`));

    await page.focus(`button[aria-label="Drain ${two}"]`);
    await page.keyboard.press("Enter");
    await says(page, `${two} receives no more worlds`);
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector("dialog") === null);
    await page.focus(`button[aria-label="Drain ${two}"]`);
    await page.keyboard.press("Enter");
    await says(page, `${two} receives no more worlds`);
    await page.keyboard.press("Enter");
    await says(page, new RegExp(`${two}\\s+draining`));
    await says(page, new RegExp(`${one}\\s+serving`));
    expect(await page.$$eval("td button", (all) => all.length)).toBe(1);
  });

  test("says why a server could not be drained", async () => {
    let isOpen = true;
    await using matchmaker = await serving({
      authorize: () => (isOpen ? ["agent", "server", "operator"] : undefined),
    });
    await using registered = await serveBoards(matchmaker);
    const { serverId } = registered.registration;
    await using opened = await openPage(browser, matchmaker.url);
    const { page } = opened;
    await page.locator(`button[aria-label="Drain ${serverId}"]`).click();
    await says(page, "receives no more worlds");
    isOpen = false;
    await page.locator("dialog ::-p-text(Drain it)").click();
    await says(page, "received one that is not authenticated");
    await says(page, new RegExp(`${serverId}\\s+serving`));
  });

  test("keeps the token in memory only, forgets it on sign-out, and names the reason of a refusal", async () => {
    await using matchmaker = await serving({
      authorize: ({ metadata }) =>
        metadata.get("authorization") === `Bearer ${token}` ? ["operator"] : undefined,
    });
    await using opened = await openPage(browser, matchmaker.url);
    const { page } = opened;
    await says(page, "received one that is not authenticated");
    await signIn(page, "another-token");
    await page.waitForFunction(() => document.querySelector("input")?.value === "");
    await says(page, "received one that is not authenticated");
    await signIn(page, token);
    await says(page, "Live");
    const kept = await page.evaluate(() =>
      JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }]),
    );
    expect(kept).not.toContain(token);
    await page.locator("::-p-text(Sign out)").click();
    await says(page, "Operator token");
    expect(await textOf(page)).not.toContain("Servers");
    await signIn(page, token);
    await says(page, "Live");
    await page.reload();
    await says(page, "Operator token");
  });

  test("needs no token where the matchmaker has no roles, and watches again after it was restarted", async () => {
    const first = await serveMatchmaker({ page: true, profiles: [pairs("before")] });
    await using opened = await openPage(browser, `${first.url}/#/profiles`);
    const { page } = opened;
    await says(page, "before");
    await first.close();
    await says(page, "trying again");
    await using _second = await serveMatchmaker({
      page: true,
      port: first.port,
      profiles: [pairs("after")],
    });
    await says(page, /Live[\s\S]*after/);
    expect(await textOf(page)).not.toContain("before");
  });

  test("shows the names of others as text", async () => {
    const hostile = "<img src=x onerror=globalThis.hacked=1>";
    await using matchmaker = await serveMatchmaker({ page: true, profiles: [pairs(hostile)] });
    await using opened = await openPage(browser, `${matchmaker.url}/#/profiles`);
    const { page } = opened;
    await says(page, hostile);
    expect(await page.$$eval("img", (all) => all.length)).toBe(0);
  });

  test.each(["light", "dark"])(
    "is accessible in its %s colours, on a phone and beyond",
    async (theme) => {
      await using matchmaker = await serving();
      await using registered = await serveBoards(matchmaker);
      const client = matchmakerClient(matchmaker.url, patient);
      const tickets = await Promise.all([client.findMatch(), client.findMatch()]);
      await using _one = await joinMatch(tickets[0]);
      await using opened = await openPage(browser, matchmaker.url);
      const { page } = opened;
      await page.setBypassCSP(true);
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
      for (const width of [390, 1_200]) {
        await page.setViewport({ width, height: 800 });
        await page.goto(`${matchmaker.url}/#/servers`);
        await page.reload();
        await says(page, "Operator token");
        expect(await violationsOf(page)).toEqual([]);
        await signIn(page, token);
        await says(page, registered.registration.serverId);
        for (const section of ["Worlds", "Tickets", "Profiles", "Changes", "Servers"]) {
          await goTo(page, section);
          await page.waitForSelector("tbody tr");
          expect([section, await violationsOf(page)]).toEqual([section, []]);
          const isWide = await page.evaluate(
            () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
          );
          expect([section, isWide]).toEqual([section, false]);
        }
        await page.locator("td button").click();
        await says(page, "receives no more worlds");
        expect(await violationsOf(page)).toEqual([]);
      }
    },
  );
});

test("a matchmaker without the option `page` serves no page", async () => {
  await using matchmaker = await serveMatchmaker();
  expect((await fetch(matchmaker.url)).status).toBe(404);
});
