// SPDX-License-Identifier: Apache-2.0
// Runs a Python program in the venv of tests/interop, which it makes first where
// it is missing or older than its requirements:
//
//   node scripts/python.mjs [--in FOLDER] [--numpy-1] ARGS...      e.g. -m pytest tests/interop
//
// With --in it is the venv of another folder with a requirements.txt.
// With --numpy-1 it is a venv with the last NumPy 1 in place of NumPy 2, which needs
// Python <= 3.12: with a later one nothing is run, which is said and is no failure.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const args = process.argv.slice(2);
const folder = args[0] === "--in" ? args.splice(0, 2)[1] : "tests/interop";
const numpy1 = args[0] === "--numpy-1";
if (numpy1) args.shift();
const venv = numpy1 ? `${folder}/.venv-numpy-1` : `${folder}/.venv`;
const python = `${venv}/bin/python`;
const stamp = `${venv}/requirements.txt`;
const pinned = readFileSync(`${folder}/requirements.txt`, "utf8");
const requirements = numpy1
  ? pinned.replace(/^numpy==.*\n/gm, "").concat("numpy==1.26.4\n")
  : pinned;

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== requirements) {
  if (numpy1 && minorVersion() > 12) {
    process.stderr.write(`skipped: NumPy 1.26 needs Python <= 3.12, found 3.${minorVersion()}\n`);
    process.exit(0);
  }
  rmSync(venv, { recursive: true, force: true });
  process.stderr.write(`making a Python venv in ${venv} …\n`);
  run("python3", ["-m", "venv", venv], "Python >= 3.10 with venv is needed");
  const wanted = `${venv}/wanted.txt`;
  writeFileSync(wanted, requirements);
  run(
    python,
    ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted],
    `pip could not install ${folder}/requirements.txt`,
  );
  writeFileSync(stamp, requirements);
}
const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
const result = spawnSync(python, args, { stdio: "inherit", env });
process.exit(result.status ?? 1);

function minorVersion() {
  const { stdout } = spawnSync("python3", ["-c", "import sys; print(sys.version_info.minor)"], {
    encoding: "utf8",
  });
  return Number(stdout);
}

function run(program, programArgs, help) {
  const { status, error } = spawnSync(program, programArgs, { stdio: "inherit" });
  if (status === 0) return;
  process.stderr.write(`${help}${error === undefined ? "" : ` (${error.message})`}\n`);
  process.exit(1);
}
