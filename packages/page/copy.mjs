// SPDX-License-Identifier: Apache-2.0
// Copies a built page into another package: node copy.mjs PAGE FOLDER
import { cpSync } from "node:fs";
import { join } from "node:path";

const [page, to, ...others] = process.argv.slice(2);
if (page === undefined || to === undefined || others.length > 0) {
  throw new Error(
    "expected a page (server or matchmaker) and the folder to copy it to; call node copy.mjs PAGE FOLDER",
  );
}
cpSync(join(import.meta.dirname, "dist", page), to, { recursive: true });
