// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { readRecording } from "@dm-env-rpc/client/recording";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import {
  type AgentId,
  defineEnvironment,
  defineWorld,
  lockstep,
  realtime,
  serve,
} from "@dm-env-rpc/server";
import { DmEnvRpcError, legalActions, t, tensor } from "@dm-env-rpc/tensor-codec";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import type { Page } from "puppeteer-core";
import { describe, expect, test } from "vitest";
import { says } from "./shown-text.ts";

const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

/** Presses the button with a text. */
async function press(page: Page, text: string): Promise<void> {
  await page.locator(`::-p-text(${text})`).click();
}

/** Walks from 0 to 9. The mask excludes steps over either end; a step to the right from 5 is refused. */
const walk = defineEnvironment({
  name: "walk",
  actions: { move: t.int8({ min: -1, max: 1 }) },
  observations: { at: t.int32(), legal_actions: legalActions(t.int8({ min: -1, max: 1 })) },
  controls: {
    a: { label: "Left", actions: { move: -1 } },
    d: { label: "Right", actions: { move: 1 } },
  },
  create() {
    let at = 0;
    const observation = () => ({
      at,
      legal_actions: tensor("bool", [3], Uint8Array.of(at > 0 ? 1 : 0, 1, at < 9 ? 1 : 0)),
    });
    return {
      reset() {
        at = 0;
        return observation();
      },
      validate({ move = 0 }) {
        if (at === 5 && move === 1) {
          throw new DmEnvRpcError("FAILED_PRECONDITION", "the road is closed at 5");
        }
      },
      step({ move = 0 }) {
        at += move;
        return { observation: observation(), reward: move };
      },
    };
  },
});

describe.each(installedBrowsers)("a person in $name", (browser) => {
  test("plays a gridworld beside an agent, by keys, and sees whose turn it is", async () => {
    const clock = lockstep({ deadlineMs: 120_000, onMissedDeadline: "default-action" });
    const keys = ["ArrowUp", "ArrowLeft", " ", "ArrowDown"] as const;
    const settings = {
      min_agents: 2,
      max_agents: 2,
      max_steps: keys.length,
      height: 5,
      width: 5,
      // A person alone cannot load food, which would end a sequence with a single food early.
      cooperative: true,
    };
    await using server = await serve({
      worlds: [gridworld(clock)],
      premade: [{ settings }],
      page: true,
    });
    await using opened = await openPage(browser, `${server.url}/#/world/gridworld-1`);
    const { page } = opened;
    await press(page, "Take a seat");
    await says(page, "Waiting for the sequence to begin");
    await using connection = await connect(server.url);
    await using agent = await connection.join("gridworld-1");
    await agent.reset();
    await says(page, "Your turn");
    for (const [tick, key] of keys.entries()) {
      const stepped = agent.step({ move: 0 });
      await says(page, new RegExp(`Your turn\\s+\\d+ s left[\\s\\S]*Tick\\s+${tick}\\b`));
      await page.keyboard.press(key);
      expect((await stepped).state).toBe(tick + 1 < keys.length ? "running" : "interrupted");
    }
    const again = agent.reset();
    await says(page, "Previous return");
    await again;
    await says(page, "Your turn");
    expect(server.worlds()).toMatchObject([{ agents: 2, sequences: 2 }]);
    await press(page, "Leave");
    await says(page, "You have left");
    await expect.poll(() => server.worlds()[0]?.agents).toBe(1);
    expect(opened.errors).toEqual([]);
  });
});

describe.each(chromium)("a person in $name", (browser) => {
  test("plays by buttons within the mask, and sees why a step is refused", async () => {
    await using server = await serve({ worlds: [walk], premade: [{}], page: true });
    await using opened = await openPage(browser, `${server.url}/#/world/walk-1`);
    const { page } = opened;
    await press(page, "Take a seat");
    await says(page, /What you observe[\s\S]*at \[\]\s*0/);
    const disabled = () =>
      page.$$eval(".choices button:disabled", (all) => all.map(({ textContent }) => textContent));
    expect(await disabled()).toEqual(["Left a"]);
    for (let at = 1; at <= 5; at++) {
      await press(page, "Right");
      await says(page, new RegExp(`at \\[\\]\\s*${at}\\b`));
    }
    expect(await disabled()).toEqual([]);
    await page.keyboard.press("d");
    await says(page, "the road is closed at 5");
    await page.keyboard.press("a");
    await says(page, /at \[\]\s*4\b/);
    await says(page, /Your return\s+4/);
  });

  test("plays in real time: a key acts as long as it is down", async () => {
    const positions = new Map<AgentId, number>();
    const drive = defineWorld({
      name: "drive",
      actions: { speed: t.int8({ min: -1, max: 1 }) },
      observations: { position: t.int32() },
      controls: {
        ArrowRight: { label: "On", actions: { speed: 1 } },
        "": { label: "Stop", actions: { speed: 0 } },
      },
      clock: realtime({ ticksPerSecond: 20 }),
      create: () => ({
        start: ({ agents }) => {
          for (const agent of agents) {
            positions.set(agent, 0);
          }
        },
        step(actions) {
          for (const [agent, { speed = 0 }] of actions) {
            positions.set(agent, (positions.get(agent) ?? 0) + speed);
          }
        },
        observe: { position: (agent) => positions.get(agent) ?? 0 },
      }),
    });
    await using server = await serve({ worlds: [drive], premade: [{}], page: true });
    await using opened = await openPage(browser, `${server.url}/#/world/drive-1`);
    const { page } = opened;
    await press(page, "Take a seat");
    await says(page, "You play");
    const position = () => [...positions.values()][0] ?? 0;
    await page.keyboard.down("ArrowRight");
    await expect.poll(position).toBeGreaterThan(20);
    await page.keyboard.up("ArrowRight");
    await expect
      .poll(async () => {
        const before = position();
        await new Promise((resolve) => setTimeout(resolve, 300));
        return position() - before;
      })
      .toBe(0);
  });

  test("records what was played, downloads it and replays it in the page", async () => {
    const folder = await mkdtemp(join(tmpdir(), "recording-"));
    try {
      await using server = await serve({ worlds: [walk], premade: [{}], page: true });
      await using opened = await openPage(browser, `${server.url}/#/world/walk-1`);
      const { page } = opened;
      const devtools = await page.createCDPSession();
      await devtools.send("Browser.setDownloadBehavior", {
        behavior: "allow",
        downloadPath: folder,
      });
      await press(page, "Take a seat");
      for (let at = 0; at < 3; at++) {
        await says(page, new RegExp(`at \\[\\]\\s*${at}\\b`));
        await page.keyboard.press("d");
      }
      await says(page, /at \[\]\s*3\b/);
      await press(page, "Leave");
      await press(page, "Download recording");
      await expect.poll(() => readdir(folder)).toEqual(["recording.dmenv"]);
      const file = join(folder, "recording.dmenv");
      const cases: string[] = [];
      for await (const { case: kind, value } of readRecording(file)) {
        cases.push(kind === "header" ? kind : `${kind} ${value.case}`);
      }
      expect(cases.slice(0, 3)).toEqual(["header", "request joinWorld", "response joinWorld"]);
      expect(cases.filter((name) => name === "response step")).toHaveLength(4);

      await page.goto(`${server.url}/#/replay`);
      const input = await page.waitForSelector('input[type="file"]');
      await (input as unknown as { uploadFile(path: string): Promise<void> }).uploadFile(file);
      await says(page, /Step 1 of 4[\s\S]*Action\s+none[\s\S]*at \[\]\s*0/);
      await page.focus('input[type="range"]');
      await page.keyboard.press("End");
      await says(page, /Step 4 of 4[\s\S]*Action\s+move 1[\s\S]*at \[\]\s*3/);
      expect(opened.errors).toEqual([]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("is not offered a seat if it may only watch", async () => {
    await using server = await serve({
      worlds: [walk],
      premade: [{}],
      page: true,
      authorize: () => ["spectator"],
    });
    await using opened = await openPage(browser, `${server.url}/#/world/walk-1`);
    await says(opened.page, "Nothing to see until a sequence begins");
    expect(
      await opened.page.$$eval("button", (all) => all.map(({ textContent }) => textContent)),
    ).toEqual(["Pause"]);
  });
});
