// SPDX-License-Identifier: Apache-2.0
// Gives the Python package the version of the npm packages, after `changeset version`.
import { readFileSync, writeFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync("packages/client/package.json", "utf8"));
const project = readFileSync("python/pyproject.toml", "utf8");
writeFileSync(
  "python/pyproject.toml",
  project.replace(/^version = ".*"$/m, `version = "${version}"`),
);
