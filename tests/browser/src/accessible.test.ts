// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import { lockstep, serve } from "@dm-env-rpc/server";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";
import { violationsOf } from "./axe.ts";
import { says } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

describe.each(chromium)("the page in $name is accessible", (browser) => {
  test.each(["light", "dark"])(
    "in its %s colours, on a phone and on wider screens",
    async (theme) => {
      const worlds = [gridworld(lockstep())];
      const settings = { min_agents: 2 };
      await using server = await serve({
        worlds,
        premade: [{ settings }, { settings }],
        page: true,
      });
      await using opened = await openPage(browser, server.url);
      const { page } = opened;
      await page.setBypassCSP(true);
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
      for (const [width, world] of [
        [390, "gridworld-1"],
        [1_200, "gridworld-2"],
      ] as const) {
        await page.setViewport({ width, height: 800 });
        await page.goto(server.url);
        await says(page, "gridworld-1");
        expect(await violationsOf(page)).toEqual([]);
        await page.goto(`${server.url}/#/replay`);
        await says(page, "Recording");
        expect(await violationsOf(page)).toEqual([]);
        await page.goto(`${server.url}/#/world/${world}`);
        await page.locator("::-p-text(Take a seat)").click();
        await says(page, "Waiting for the sequence");
        expect(await violationsOf(page)).toEqual([]);
        await using connection = await connect(server.url);
        const environment = await connection.join(world);
        await environment.reset();
        await says(page, "Your turn");
        expect(await violationsOf(page)).toEqual([]);
        await page.locator("::-p-text(Leave)").click();
        await says(page, "You have left");
      }
    },
  );

  test("with only the keyboard", async () => {
    await using server = await serve({
      worlds: [gridworld(lockstep())],
      premade: [{}],
      page: true,
    });
    await using opened = await openPage(browser, server.url);
    const { page } = opened;
    await says(page, "gridworld-1");
    const focusOn = async (text: string): Promise<void> => {
      for (let tab = 0; tab < 20; tab++) {
        await page.keyboard.press("Tab");
        if (
          await page.evaluate((text) => document.activeElement?.textContent?.includes(text), text)
        ) {
          return;
        }
      }
      throw new Error(`no Tab leads to "${text}"`);
    };
    await focusOn("gridworld-1");
    await page.keyboard.press("Enter");
    await says(page, "Take a seat");
    await focusOn("Take a seat");
    await page.keyboard.press("Enter");
    await says(page, "Your turn");
    await page.keyboard.press("ArrowUp");
    await says(page, /Tick\s+1\b/);
    await focusOn("Leave");
    await page.keyboard.press("Enter");
    await says(page, "You have left");
  });
});
