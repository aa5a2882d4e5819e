// SPDX-License-Identifier: Apache-2.0
import { connect, worldFate } from "@dm-env-rpc/client";
import { serveRelay } from "@dm-env-rpc/relay";
import { bundle, installedBrowsers, openScript } from "@dm-env-rpc/tests-processes/browser";
import type { Page } from "puppeteer-core";
import { describe, expect, test } from "vitest";
import { frozen } from "./frozen.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

const token = "token-of-the-page";

/** Time between the pings of a relay that must notice that a page is gone or stands still. */
const quick = 5_000;

/** A page with a world that counts its agents and adds up what they add. */
const counting = `
  import { createEnvironmentServer, defineWorld, dialOut, lockstep } from "@dm-env-rpc/server";
  import { t } from "@dm-env-rpc/tensor-codec";

  const counter = defineWorld({
    name: "counter",
    onDrop: { holdMs: 120_000 },
    actions: { add: t.int32() },
    observations: { total: t.int32(), joins: t.int32() },
    clock: lockstep(),
    create() {
      let total = 0;
      let joins = 0;
      return {
        join: () => void (joins += 1),
        step(actions) {
          for (const { add = 0 } of actions.values()) total += add;
        },
        observe: { total: () => total, joins: () => joins },
      };
    },
  });
  const server = createEnvironmentServer({ worlds: [counter], premade: [{}] });
  globalThis.dialRelay = async (relay, token) => {
    const { address } = await dialOut(server, { relay, token });
    return address;
  };
`;

declare global {
  var dialRelay: (relay: string, token: string) => Promise<string>;
}

/** Serves a relay, and opens a page that dials it. By default, the relay loses no page while the machine stalls. */
async function setup(browser: (typeof installedBrowsers)[number], programPingMs = 60_000) {
  const { script } = await bundle(counting, import.meta.dirname);
  const opened = await openScript(browser, script, "dialRelay");
  const relay = await serveRelay({
    programs: [{ name: "game", token }],
    allowedOrigins: [opened.origin],
    limits: { programPingMs, awayMs: 120_000 },
  });
  const dial = (page: Page): Promise<string> =>
    page.evaluate(
      (to, secret) => globalThis.dialRelay(to, secret),
      relay.url.replace("http", "ws"),
      token,
    );
  return {
    page: opened.page,
    origin: opened.origin,
    relay,
    address: await dial(opened.page),
    /** Waits for the script of a page that was loaded again, and dials the relay. */
    async dialAgain(): Promise<string> {
      await opened.page.waitForFunction(() => globalThis.dialRelay !== undefined);
      return await dial(opened.page);
    },
    async [Symbol.asyncDispose]() {
      await relay.close();
      await opened[Symbol.asyncDispose]();
    },
  };
}

const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.fail("expected a rejection"),
    (error: unknown) => error,
  );

describe.each(installedBrowsers)(
  "an agent with reconnect, of a world in a page of $name",
  (browser) => {
    test("joins the world of the same name again after the page was reloaded, at the same address", async () => {
      await using served = await setup(browser);
      const { address } = served;
      await using connection = await connect(address, { reconnect: { maxMs: 1_000 } });
      await using owner = await connect(address, { reconnect: { maxMs: 1_000 } });
      const environment = await connection.join("counter-1");
      const created = await owner.join(await owner.createWorld());
      await Promise.all([environment.reset(), created.reset()]);
      await environment.step({ add: 5 });

      await served.page.reload();
      expect(await served.dialAgain()).toBe(address);
      const errors = await Promise.all(
        [environment, created].map((agent) => caught(agent.step({}))),
      );
      expect(errors.map(worldFate)).toEqual(["kept", "lost"]);
      await environment.reset();
      const { observation } = await environment.step({ add: 2 });
      expect(observation).toMatchObject({ total: 2, joins: 1 });
      // The connection continues where only the world is lost.
      const another = await owner.join("counter-1");
      expect((await another.reset()).first()).toBe(true);
    });
  },
);

describe.each(chromium)("an agent with reconnect, of a world in a page of $name", (browser) => {
  test("is tried again until the page is back, and with its step outstanding", async () => {
    await using served = await setup(browser, quick);
    const attempts: number[] = [];
    await using connection = await connect(served.address, {
      reconnect: {
        maxMs: 500,
        onStatus: (status) => {
          if (status.kind === "reconnecting") {
            attempts.push(status.attempt);
          }
        },
      },
    });
    const environment = await connection.join("counter-1");
    await environment.reset();
    const { page, relay } = served;
    await page.goto("about:blank");
    const failed = caught(environment.step({ add: 1 }));
    await expect.poll(() => attempts.at(-1)).toBeGreaterThan(3);
    expect(relay.programs()).toMatchObject([{ isConnected: false, address: served.address }]);
    await page.goto(served.origin);
    await served.dialAgain();
    expect(worldFate(await failed)).toBe("kept");
    expect((await environment.reset()).first()).toBe(true);
  });

  test("resumes its seat after the page had stood still, with the world as it was", async () => {
    await using served = await setup(browser, quick);
    const { address, page, relay } = served;
    await using connection = await connect(address, {
      reconnect: { maxMs: 1_000, keepSeat: true },
    });
    const environment = await connection.join("counter-1");
    await environment.reset();
    await environment.step({ add: 5 });
    const still = await frozen(page);
    await expect.poll(() => relay.programs()[0]?.isConnected).toBe(false);
    const failed = caught(environment.step({ add: 0 }));
    still[Symbol.dispose]();
    expect(worldFate(await failed)).toBe("kept");
    await expect.poll(() => relay.programs()[0]?.isConnected).toBe(true);
    expect(relay.programs()[0]?.address).toBe(address);
    await environment.reset();
    const { observation } = await environment.step({ add: 2 });
    expect(observation).toMatchObject({ total: 7, joins: 1 });
  });
});
