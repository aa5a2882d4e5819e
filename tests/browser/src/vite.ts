// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "vite";

/** Bundles the script of a page with Vite's defaults; `warnings` are Vite's. */
export async function bundleWithVite(
  contents: string,
): Promise<{ readonly code: string; readonly warnings: readonly string[] }> {
  const folder = await mkdtemp(join(import.meta.dirname, "../vite-"));
  const warnings: string[] = [];
  try {
    await writeFile(join(folder, "page.js"), contents);
    await writeFile(
      join(folder, "index.html"),
      '<!doctype html><script type="module" src="/page.js"></script>',
    );
    const built = await build({
      root: folder,
      configFile: false,
      build: { write: false, rollupOptions: { onwarn: ({ message }) => warnings.push(message) } },
      logLevel: "silent",
    });
    const outputs = [built].flat().flatMap((result) => ("output" in result ? result.output : []));
    const code = outputs.map((output) => ("code" in output ? output.code : "")).join("\n");
    return { code, warnings };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
