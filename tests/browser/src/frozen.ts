// SPDX-License-Identifier: Apache-2.0
import type { Page } from "puppeteer-core";

/** Stops the processes that run the pages of a Chromium, until it is disposed. */
export async function frozen(page: Page): Promise<Disposable> {
  const devtools = await page.browser().target().createCDPSession();
  const { processInfo } = await devtools.send("SystemInfo.getProcessInfo");
  await devtools.detach();
  const pids = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id);
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of pids) {
      process.kill(pid, name);
    }
  };
  signal("SIGSTOP");
  return { [Symbol.dispose]: () => signal("SIGCONT") };
}
