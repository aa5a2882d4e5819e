// SPDX-License-Identifier: Apache-2.0
// Takes the pictures of the page that the docs show: node tests/browser/src/screenshots.ts
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { chromium, openPage } from "@dm-env-rpc/tests-processes/browser";
import { startApp } from "./apps.ts";

const folder = join(import.meta.dirname, "../../../docs/screenshots");

/** States of the page to picture. */
const shots = [
  { name: "worlds-light", theme: "light", width: 960, height: 560, isWorld: false },
  { name: "world-light", theme: "light", width: 960, height: 720, isWorld: true },
  { name: "world-dark", theme: "dark", width: 960, height: 720, isWorld: true },
  { name: "world-phone", theme: "dark", width: 390, height: 844, isWorld: true },
] as const;

/** Time for the plots to fill, in ms. */
const lookMs = 12_000;

await mkdir(folder, { recursive: true });
await using demo = await startApp("demo", ["--forever"]);
const url = demo.firstLine.replace("watch at ", "");
for (const { name, theme, width, height, isWorld } of shots) {
  await using opened = await openPage(chromium(), url);
  const { page } = opened;
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.waitForSelector("tbody a", { timeout: 60_000 });
  if (isWorld) {
    await page.$eval("tbody a", (link) => link.click());
    await page.waitForSelector("img.pixels");
  }
  await new Promise((resolve) => setTimeout(resolve, lookMs));
  await page.screenshot({ path: join(folder, `${name}.png`) });
  process.stdout.write(`${name}.png\n`);
}

await using playing = await startApp("gridworld-server", ["--page", "--port", "0"]);
const board = playing.firstLine.replace("listening on ", "");
await using opened = await openPage(chromium(), `${board}/#/world/gridworld-1`);
const { page } = opened;
await page.setViewport({ width: 390, height: 844 });
await page.locator("::-p-text(Take a seat)").click();
for (const key of ["ArrowUp", "ArrowLeft", "ArrowLeft"] as const) {
  await page.waitForSelector("::-p-text(Your turn)");
  await page.keyboard.press(key);
}
await page.waitForSelector("::-p-text(Your turn)");
await page.screenshot({ path: join(folder, "play-phone.png") });
process.stdout.write("play-phone.png\n");

const pairs = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "everyone" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: "gridworld",
});
await using matchmaker = await serveMatchmaker({ profiles: [pairs], page: true });
await using fleet = new AsyncDisposableStack();
for (const region of ["europe", "america"]) {
  fleet.use(
    await startApp("gridworld-server", [
      ...["--port", "0", "--max-worlds", "8", "--max-agents", "32"],
      ...["--matchmaker", matchmaker.url, "--region", region],
    ]),
  );
}
const client = matchmakerClient(matchmaker.url);
const tickets = await Promise.all(Array.from({ length: 10 }, () => client.findMatch()));
for (const ticket of tickets) {
  fleet.use(await joinMatch(ticket));
}
await using operating = await openPage(chromium(), `${matchmaker.url}/#/servers`);
await operating.page.setViewport({ width: 960, height: 420 });
await operating.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
await operating.page.waitForFunction(() =>
  /Tickets joined\s*10Servers/.test(document.body.textContent ?? ""),
);
await operating.page.screenshot({ path: join(folder, "matchmaker-light.png") });
process.stdout.write("matchmaker-light.png\n");
