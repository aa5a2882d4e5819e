// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { run } from "./run.ts";

/**
 * Bundles a module for a page with Vite, as it is without configuration.
 *
 * @param folder A project that has Vite and the module's packages.
 * @returns Bytes of the bundle, minified and compressed.
 * @throws Error if the bundle needs a module of Node.
 */
export async function bytesInPage(folder: string, name: string, module: string): Promise<number> {
  const page = join(folder, "pages", name);
  mkdirSync(page, { recursive: true });
  writeFileSync(join(page, "page.js"), module);
  writeFileSync(
    join(page, "index.html"),
    '<!doctype html><script type="module" src="/page.js"></script>',
  );
  await run("node_modules/.bin/vite", ["build", `pages/${name}`, "--logLevel", "error"], {
    cwd: folder,
  });
  const assets = join(page, "dist/assets");
  const scripts = readdirSync(assets)
    .filter((file) => file.endsWith(".js"))
    .map((file) => readFileSync(join(assets, file)));
  const [needed] = scripts.flatMap(
    (script) => String(script).match(/["']node:\w+|__vite-browser-external/) ?? [],
  );
  if (needed !== undefined) {
    throw new Error(`expected a bundle without modules of Node, received one with ${needed}`);
  }
  return scripts.reduce((sum, script) => sum + gzipSync(script).length, 0);
}
