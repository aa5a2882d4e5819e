// SPDX-License-Identifier: Apache-2.0
// npm run interop: everything that needs Python. Their client on our server, the newest
// release and the one before it, and the package of python/ over both; then our client, and the
// conformance suite, on theirs, and last the guides that end with an agent in Python. What is tests
// leaves a report.
import { spawnSync } from "node:child_process";

const reports = "tests/interop/reports";
/** The tests that another release of the official package can answer differently. */
const ofTheirs = [
  "async_client",
  "bounds",
  "codec_difference",
  "compliance",
  "dm_env",
  "echo",
  "mixed_agents",
  "official_client",
  "properties",
  "refusals",
  "settings",
];

// Of the package, what a release of the client can answer differently.
const ofWorlds = ["spaces", "wire", "env", "vector_env", "pettingzoo"];

const parts = [
  [
    "node",
    "scripts/python.mjs",
    "-m",
    "pytest",
    "-q",
    "tests/interop",
    `--junitxml=${reports}/pytest.xml`,
  ],
  ["node", "scripts/python.mjs", "-m", "ruff", "check", "python"],
  ["node", "scripts/python.mjs", "-m", "ruff", "format", "--check", "python"],
  [
    ...["node", "scripts/python.mjs", "-m", "ruff", "check"],
    ...["--config", "python/pyproject.toml", "examples/training"],
  ],
  [
    "node",
    "scripts/python.mjs",
    "-m",
    "mypy",
    "--config-file",
    "python/pyproject.toml",
    "python/src",
  ],
  [
    ...["node", "scripts/python.mjs", "-m", "pytest", "-q", "-rs", "-c", "python/pyproject.toml"],
    ...["python/tests", `--junitxml=${reports}/pytest-python.xml`],
  ],
  [
    ...["node", "scripts/python.mjs", "--previous", "-m", "pytest", "-q"],
    ...ofTheirs.map((name) => `tests/interop/test_${name}.py`),
    `--junitxml=${reports}/pytest-previous.xml`,
  ],
  [
    ...["node", "scripts/python.mjs", "--previous", "-m", "pytest", "-q"],
    ...["-c", "python/pyproject.toml"],
    ...ofWorlds.map((name) => `python/tests/test_${name}.py`),
    `--junitxml=${reports}/pytest-python-previous.xml`,
  ],
  ["vitest", "run", "--project", "interop", `--outputFile.json=${reports}/vitest.json`],
  ["node", "tests/docs/src/follow-guide.ts", "docs/expose-your-game.md"],
  ["node", "tests/docs/src/follow-guide.ts", "docs/train.md"],
  ["node", "tests/docs/src/follow-guide.ts", "docs/canvas-game.md"],
];

const failed = [];
for (const [program, ...args] of parts) {
  const line = [program, ...args].join(" ");
  process.stdout.write(`\n> ${line}\n`);
  const { status, error } = spawnSync(program, args, { stdio: "inherit" });
  if (error !== undefined) {
    process.stderr.write(`${error.message}\n`);
  }
  if (status !== 0) {
    failed.push(line);
  }
}
for (const line of failed) {
  process.stderr.write(`failed: ${line}\n`);
}
process.exitCode = failed.length === 0 ? 0 : 1;
