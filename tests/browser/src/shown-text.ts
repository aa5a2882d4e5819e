// SPDX-License-Identifier: Apache-2.0
import type { Page } from "puppeteer-core";
import { expect } from "vitest";

/** Returns the text that the page shows. */
export function textOf(page: Page): Promise<string> {
  // biome-ignore lint/performance/useDomNodeTextContent: white space is as it is shown.
  return page.$eval("body", ({ innerText }) => innerText);
}

/** Waits until the page shows a text. */
export async function says(page: Page, text: string | RegExp): Promise<void> {
  await expect.poll(() => textOf(page)).toMatch(text);
}
