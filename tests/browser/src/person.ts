// SPDX-License-Identifier: Apache-2.0
// A person who takes a seat on a server's page, presses keys on each turn and leaves:
// node tests/browser/src/person.ts http://HOST:PORT WORLD PRESSES

import { chromium, openPage } from "@dm-env-rpc/tests-processes/browser";
import type { Page } from "puppeteer-core";

const keys = ["ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft", "Space"] as const;

/** Waits until the page shows a text. */
async function shows(page: Page, text: string): Promise<void> {
  await page.waitForSelector(`::-p-text(${text})`, { timeout: 60_000 });
}

/** The world's tick, as the page shows it. */
function tickOf(page: Page): Promise<string> {
  return page.$$eval(
    ".side .facts div",
    (facts) => facts.find((fact) => fact.textContent?.startsWith("Tick"))?.textContent ?? "",
  );
}

const [url = "", world = "", presses = "10"] = process.argv.slice(2);
await using opened = await openPage(chromium(), `${url}/#/world/${world}`);
const { page, errors } = opened;
await page.locator("::-p-text(Take a seat)").click();
for (let press = 0; press < Number(presses); press++) {
  await shows(page, "Your turn");
  const tick = await tickOf(page);
  await page.keyboard.press(keys[press % keys.length] ?? "Space");
  while ((await tickOf(page)) === tick) {
    await shows(page, "Tick");
  }
}
await shows(page, "Your turn");
await page.locator("::-p-text(Leave)").click();
await shows(page, "You have left");
process.stdout.write(`${JSON.stringify({ presses: Number(presses), errors })}\n`);
