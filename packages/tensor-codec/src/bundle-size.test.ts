// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

/** Imports of a page, each with the most kilobytes that it may add, minified and compressed. */
const bars = [
  { imported: `export { t } from "./index.ts"`, most: 8 },
  { imported: `export { pack } from "./index.ts"`, most: 16 },
  { imported: `export * from "./index.ts"`, most: 36 },
  { imported: `export * from "./wire/index.ts"`, most: 36 },
];

test.each(bars)("a page with $imported gets at most $most KB", async ({ imported, most }) => {
  const { outputFiles } = await build({
    stdin: { contents: imported, resolveDir: fileURLToPath(new URL(".", import.meta.url)) },
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "browser",
    target: "es2022",
    logLevel: "silent",
  });
  const kilobytes = gzipSync(outputFiles[0]?.contents ?? "").length / 1000;
  process.stdout.write(`${kilobytes.toFixed(1)} KB (at most ${most}): ${imported}\n`);
  expect(kilobytes).toBeGreaterThan(0.5);
  expect(kilobytes).toBeLessThan(most);
});
