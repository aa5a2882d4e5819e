// SPDX-License-Identifier: Apache-2.0
// Copies the version of the npm packages to the Python package, after `changeset version`.
import { readFileSync, writeFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync("packages/client/package.json", "utf8"));
const project = readFileSync("python/pyproject.toml", "utf8");
writeFileSync(
  "python/pyproject.toml",
  project.replace(/^version = ".*"$/m, `version = "${version}"`),
);
