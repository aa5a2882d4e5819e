// SPDX-License-Identifier: Apache-2.0
// Bundles the page into dist/; copy.mjs copies it into the packages that serve it.
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const dist = join(here, "dist");
rmSync(dist, { recursive: true, force: true });
cpSync(join(here, "static"), dist, { recursive: true });
await build({
  entryPoints: { page: join(here, "src/main.tsx") },
  outdir: dist,
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
