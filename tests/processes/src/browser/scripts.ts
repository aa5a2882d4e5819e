// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { type InstalledBrowser, type OpenedPage, openPage } from "./browsers.ts";

/** Time for a script to define its variable; a machine may pause for seconds. */
const startMs = 120_000;

/** A page's script, bundled as an application would. */
export interface Bundle {
  readonly script: string;
  /** Its size, minified and compressed. */
  readonly gzipBytes: number;
}

/**
 * Bundles the script of a page, written as a module.
 *
 * @param folder The folder that its imports are resolved from.
 */
export async function bundle(contents: string, folder: string): Promise<Bundle> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: folder, loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2022",
    logLevel: "silent",
  });
  const script = outputFiles[0]?.text ?? "";
  return { script, gzipBytes: gzipSync(script).length };
}

/** A site of one page. */
interface Site extends AsyncDisposable {
  readonly origin: string;
}

/** Serves a page that runs a script. */
async function serveSite(script: string): Promise<Site> {
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html; charset=utf-8");
    response.end(
      isScript
        ? script
        : '<!doctype html><title>page</title><body><script type="module" src="/page.js"></script>',
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    origin: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A page that runs a script, in a browser of its own. */
export interface OpenedScript extends OpenedPage {
  readonly origin: string;
}

/**
 * Opens a page that runs a bundled script.
 *
 * @param defines The last variable of `globalThis` that the script defines.
 */
export async function openScript(
  browser: InstalledBrowser,
  script: string,
  defines: string,
): Promise<OpenedScript> {
  const site = await serveSite(script);
  try {
    const opened = await openPage(browser, site.origin);
    await opened.page.waitForFunction((name) => name in globalThis, { timeout: startMs }, defines);
    return {
      page: opened.page,
      errors: opened.errors,
      origin: site.origin,
      async [Symbol.asyncDispose]() {
        await opened[Symbol.asyncDispose]();
        await site[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await site[Symbol.asyncDispose]();
    throw error;
  }
}
