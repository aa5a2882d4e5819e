// SPDX-License-Identifier: Apache-2.0
// Runs a Python program in the venv of tests/interop, which it makes first where
// it is missing or older than its requirements:
//
//   node scripts/python.mjs ARGS...        e.g. -m pytest tests/interop
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const venv = "tests/interop/.venv";
const python = `${venv}/bin/python`;
const requirements = readFileSync("tests/interop/requirements.txt", "utf8");
const stamp = `${venv}/requirements.txt`;

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== requirements) {
  rmSync(venv, { recursive: true, force: true });
  process.stderr.write("making a Python venv in tests/interop/.venv …\n");
  run("python3", ["-m", "venv", venv], "Python >= 3.10 with venv is needed");
  run(
    python,
    [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "-r",
      "tests/interop/requirements.txt",
    ],
    "pip could not install tests/interop/requirements.txt",
  );
  writeFileSync(stamp, requirements);
}
const result = spawnSync(python, process.argv.slice(2), { stdio: "inherit" });
process.exit(result.status ?? 1);

function run(program, args, help) {
  const { status, error } = spawnSync(program, args, { stdio: "inherit" });
  if (status === 0) return;
  process.stderr.write(`${help}${error === undefined ? "" : ` (${error.message})`}\n`);
  process.exit(1);
}
