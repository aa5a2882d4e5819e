// SPDX-License-Identifier: Apache-2.0
// Bundles the pages of a server and of a matchmaker into dist/; copy.mjs copies them into the packages that serve them.
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const dist = join(here, "dist");
const entries = { server: "src/main.tsx", matchmaker: "src/matchmaker/main.tsx" };

rmSync(dist, { recursive: true, force: true });
for (const [name, entry] of Object.entries(entries)) {
  const outdir = join(dist, name);
  cpSync(join(here, "static", name), outdir, { recursive: true });
  cpSync(join(here, "static/icon.svg"), join(outdir, "icon.svg"));
  await build({
    entryPoints: { page: join(here, entry) },
    outdir,
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: ["es2022", "chrome116", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
}
