// SPDX-License-Identifier: Apache-2.0
import axeCore from "axe-core";
import type { Page } from "puppeteer-core";

declare global {
  var axe: {
    run(): Promise<{ violations: readonly { id: string; nodes: readonly { html: string }[] }[] }>;
  };
}

/** Returns the violations that axe finds on a page in its current state, contrast included. */
export async function violationsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(axeCore.source);
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  });
}
