// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { type Browser, launch, type Page } from "puppeteer-core";

/** A browser that a test can start. */
export interface InstalledBrowser {
  readonly name: "chrome" | "firefox";
  readonly path: string;
}

const candidates: readonly InstalledBrowser[] = [
  { name: "chrome", path: "/usr/bin/chromium" },
  { name: "chrome", path: "/usr/bin/google-chrome" },
  { name: "firefox", path: "/usr/bin/firefox-esr" },
  { name: "firefox", path: "/usr/bin/firefox" },
];

/** The browsers of this machine, one per name. */
export const installedBrowsers: readonly InstalledBrowser[] = candidates
  .filter(({ path }) => existsSync(path))
  .filter(({ name }, index, all) => all.findIndex((other) => other.name === name) === index);

/** Names of the browsers that are not installed here. */
export const missingBrowsers: readonly string[] = ["chrome", "firefox"].filter(
  (name) => !installedBrowsers.some((browser) => browser.name === name),
);

/**
 * Returns this machine's Chromium.
 *
 * @throws Error if it has none.
 */
export function chromium(): InstalledBrowser {
  const found = installedBrowsers.find(({ name }) => name === "chrome");
  if (found === undefined) {
    throw new Error("no Chromium on this machine: expected /usr/bin/chromium; install it");
  }
  return found;
}

/** Time for a step of a browser; a machine may pause for seconds. */
const stepMs = 120_000;

/** Starts a browser without a window, and with a profile of its own. */
function start({ name, path }: InstalledBrowser): Promise<Browser> {
  return launch({
    browser: name,
    executablePath: path,
    headless: true,
    timeout: stepMs,
    protocolTimeout: stepMs,
    args:
      name === "chrome"
        ? [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
          ]
        : [],
  });
}

/** A page in a browser of its own. */
export interface OpenedPage extends AsyncDisposable {
  readonly page: Page;
  /** Errors of the page: uncaught ones, and violations of its content security policy. */
  readonly errors: readonly string[];
}

/** Opens an address in a browser of its own. */
export async function openPage(browser: InstalledBrowser, url: string): Promise<OpenedPage> {
  const started = await start(browser);
  const page = await started.newPage();
  page.setDefaultTimeout(stepMs);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") {
      errors.push(message.text());
    }
  });
  await page.goto(url);
  return { page, errors, [Symbol.asyncDispose]: () => started.close() };
}
