// SPDX-License-Identifier: Apache-2.0
// Copies the built page into another package: node copy.mjs FOLDER
import { cpSync } from "node:fs";
import { join } from "node:path";

const [to] = process.argv.slice(2);
if (to === undefined) {
  throw new Error(
    "expected the folder to copy the page to, received none; call node copy.mjs FOLDER",
  );
}
cpSync(join(import.meta.dirname, "dist"), to, { recursive: true });
