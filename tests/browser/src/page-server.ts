// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { build as buildWithVite } from "vite";

/** A page's script, bundled as an application would. */
export interface Bundle {
  readonly script: string;
  /** Its size, minified and compressed. */
  readonly gzipBytes: number;
}

/** Bundles the script of a page, written as a module. */
export async function bundle(contents: string): Promise<Bundle> {
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: import.meta.dirname, loader: "ts" },
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
    const built = await buildWithVite({
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

/** A site of one page. */
export interface Site extends AsyncDisposable {
  readonly origin: string;
}

/** Serves a page that runs a script. */
export async function serveSite(script: string): Promise<Site> {
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
