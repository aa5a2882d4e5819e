// SPDX-License-Identifier: Apache-2.0
// Runs a Python program in the venv of tests/interop, which it creates first if it
// is missing or older than its requirements:
//
//   node scripts/python.mjs [--in FOLDER] [--previous] ARGS...     e.g. -m pytest tests/interop
//
// With --in it uses the venv of another folder with a requirements.txt.
// With --previous the venv has the previous release of dm-env-rpc and, up to Python 3.12, the last
// NumPy 1 instead of NumPy 2.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const args = process.argv.slice(2);
const folder = args[0] === "--in" ? args.splice(0, 2)[1] : "tests/interop";
const isPrevious = args[0] === "--previous";
if (isPrevious) {
  args.shift();
}
const venv = isPrevious ? `${folder}/.venv-previous` : `${folder}/.venv`;
const python = `${venv}/bin/python`;
const stamp = `${venv}/requirements.txt`;
const newest = readFileSync(`${folder}/requirements.txt`, "utf8");
const requirements = isPrevious ? previousTo(newest) : newest;

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== requirements) {
  rmSync(venv, { recursive: true, force: true });
  process.stderr.write(`creating a Python venv in ${venv} …\n`);
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

/** Replaces the releases in a requirements.txt with the previous ones. */
function previousTo(pinned) {
  return pinned
    .replace(/^dm-env-rpc==.*$/m, "dm-env-rpc==1.1.6")
    .replace(/^(numpy==.*); python_version < .*$/m, 'numpy==1.26.4; python_version < "3.13"')
    .replace(/^(numpy==.*); python_version >= .*$/m, '$1; python_version >= "3.13"');
}

function run(program, programArgs, help) {
  const { status, error } = spawnSync(program, programArgs, { stdio: "inherit" });
  if (status === 0) {
    return;
  }
  process.stderr.write(`${help}${error === undefined ? "" : ` (${error.message})`}\n`);
  process.exit(1);
}
