// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { type AgentId, defineWorld, freeRunning, serve } from "@dm-env-rpc/server";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";
import { startApp } from "./apps.ts";
import { frozen } from "./frozen.ts";
import { says, textOf } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

/** A world of numbers that changes with each step and has no picture. */
const numbers = defineWorld({
  name: "numbers",
  actions: { add: t.int32() },
  observations: { count: t.int32(), grid: t.float32([8, 8]), reward: t.float32() },
  clock: freeRunning(),
  create() {
    let count = 0;
    return {
      step(actions) {
        for (const { add = 0 } of actions.values()) {
          count += add;
        }
      },
      observe: {
        count: () => count,
        grid: () =>
          tensor(
            "float32",
            [8, 8],
            new Float32Array(64).map((_, i) => i * count),
          ),
        reward: () => 1,
      },
    };
  },
});

describe.each(chromium)("the page in $name", (browser) => {
  test("shows the eight agents of npm start, and a board live", async () => {
    await using demo = await startApp("demo", ["--forever"]);
    const url = demo.firstLine.replace("watch at ", "");
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    await using opened = await openPage(browser, url);
    const { page } = opened;
    await says(page, /Worlds\s+2\s+Agents\s+8/);
    await says(page, /gridworld\s+4\s+\d+\s+\d+.*\n[\s\S]*gridworld\s+4\s+\d+\s+\d+/);
    await page.click("tbody a");
    await says(page, /4 agents/);
    const picture = await page.waitForSelector("img.pixels");
    const frames = await page.evaluate(async (image) => {
      const sources = new Set<string>();
      let width = 0; // 0 while a picture is being decoded.
      while (sources.size < 5 || width === 0) {
        sources.add(image?.src ?? "");
        width = Math.max(width, image?.naturalWidth ?? 0);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return { sources: [...sources], width };
    }, picture);
    expect(frames.width).toBe(64);
    expect(frames.sources.every((source) => source.startsWith("blob:"))).toBe(true);
    await says(page, /lockstep, 10 s/);
    expect(opened.errors).toEqual([]);
  });

  test("shows the observations of a world without a picture, until the world is gone", async () => {
    await using server = await serve({ worlds: [numbers], premade: [{}], page: true });
    await using connection = await connect(server.url);
    const environment = await connection.join("numbers-1");
    await environment.reset();
    await environment.step({ add: 41 });
    await using opened = await openPage(browser, `${server.url}/#/world/numbers-1`);
    const { page } = opened;
    await says(page, /What agent 1 observes[\s\S]*count \[\]\s*41/);
    expect(await page.$$eval("canvas.pixels", (all) => all.length)).toBe(1);
    await environment.step({ add: 1 });
    await says(page, /count \[\]\s*42/);
    await environment.close();
    await connection.destroyWorld("numbers-1");
    await says(
      page,
      "This world no longer exists, or its server was closed. Choose another in “All worlds”.",
    );
    expect(opened.errors).toEqual([]);
  });

  test("pauses, and holds no connection while it does", async () => {
    await using server = await serve({ worlds: [numbers], premade: [{}], page: true });
    await using connection = await connect(server.url);
    const environment = await connection.join("numbers-1");
    await environment.reset();
    await using opened = await openPage(browser, `${server.url}/#/world/numbers-1`);
    const { page } = opened;
    await says(page, /count \[\]\s*0/);
    await page.click("header button[aria-pressed]");
    await says(page, "Paused");
    await environment.step({ add: 7 });
    await using other = await openPage(browser, `${server.url}/#/world/numbers-1`);
    await says(other.page, /count \[\]\s*7/);
    expect(await textOf(page)).toMatch(/count \[\]\s*0/);
    await page.click("header button[aria-pressed]");
    await says(page, /count \[\]\s*7/);
  });

  test("behaviour 75: a viewer whose page is frozen delays no tick", async () => {
    await using server = await serve({ worlds: [numbers], premade: [{}], page: true });
    await using connection = await connect(server.url);
    const environment = await connection.join("numbers-1");
    await environment.reset();
    await using opened = await openPage(browser, `${server.url}/#/world/numbers-1`);
    await says(opened.page, /count \[\]\s*0/);
    {
      using _page = await frozen(opened.page);
      // Steps would stay unanswered if one of them waited for the page.
      for (let step = 0; step < 2_000; step++) {
        await environment.step({ add: 1 });
      }
    }
    const { count } = (await environment.step({ add: 0 })).observation;
    await says(opened.page, new RegExp(`count \\[\\]\\s*${Number(count).toLocaleString("en-GB")}`));
  });

  test("shows the reason if it may not watch, and shows the world if it has a token", async () => {
    await using server = await serve({
      worlds: [numbers],
      premade: [{}],
      page: true,
      authorize: ({ metadata }) =>
        metadata.get("authorization") === "Bearer swordfish" ? ["spectator"] : ["agent"],
    });
    await using refused = await openPage(browser, server.url);
    await says(refused.page, 'cannot watch worlds: expected the role "spectator"');
    await using admitted = await openPage(browser, `${server.url}/#token=swordfish`);
    await says(admitted.page, "numbers-1");
  });

  test("runs no script of a world's author", async () => {
    const hostile = "<img src=x onerror=globalThis.hacked=1>";
    const drawn = defineWorld({
      name: "drawn",
      description: hostile,
      actions: {},
      observations: { said: t.string() },
      create: () => ({
        step() {},
        observe: { said: (_agent: AgentId) => hostile },
        picture: () =>
          '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30" onload="globalThis.hacked=1"><script>globalThis.hacked=1</script><rect width="40" height="30"/></svg>',
      }),
    });
    await using server = await serve({ worlds: [drawn], premade: [{}], page: true });
    await using connection = await connect(server.url);
    await (await connection.join("drawn-1")).reset();
    await using opened = await openPage(browser, `${server.url}/#/world/drawn-1`);
    const { page } = opened;
    await says(page, hostile);
    await page.waitForFunction(() => document.querySelector("img")?.naturalWidth === 40);
    const hacked = await page.evaluate(() => "hacked" in globalThis);
    expect([hacked, await page.$$eval("svg, main img:not(.picture)", (all) => all.length)]).toEqual(
      [false, 0],
    );
  });
});
