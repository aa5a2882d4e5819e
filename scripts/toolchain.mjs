// SPDX-License-Identifier: Apache-2.0
// Runs a command of this repository on any machine with Node 20 and npm:
//
//   node scripts/toolchain.mjs [--build] COMMAND [ARGS...]
//
// If the machine has no suitable Node and pnpm, it installs the pinned ones from npm into
// .toolchain/. Then it installs the workspace, builds it with --build, and
// runs COMMAND with the tools of the workspace on its PATH.
// It must stay plain JavaScript without dependencies: nothing is installed yet.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const nodeVersion = manifest.toolchain.node;
const pnpmVersion = manifest.packageManager.replace("pnpm@", "");
const folder = join(root, ".toolchain");
const onWindows = process.platform === "win32";

const args = process.argv.slice(2);
const build = args[0] === "--build";
if (build) {
  args.shift();
}
// npm swallows the `--` before a script's own arguments, pnpm passes it on.
const separator = args.indexOf("--");
if (separator > 0) {
  args.splice(separator, 1);
}
const [command, ...commandArgs] = args;
if (command === undefined) {
  fail("usage: node scripts/toolchain.mjs [--build] COMMAND [ARGS...]");
}

const env = { ...process.env, TURBO_TELEMETRY_DISABLED: "1", DO_NOT_TRACK: "1" };
env.PATH = [join(root, "node_modules", ".bin"), toolchainPath(), process.env.PATH]
  .filter((entry) => entry !== undefined)
  .join(delimiter);

const install = ["install", "--frozen-lockfile", "--prefer-offline", "--reporter=append-only"];
await prepare("installing the dependencies", "pnpm", install);
if (build) {
  const building = ["run", "build", "--output-logs=errors-only", "--log-order=grouped"];
  await prepare("building the packages and apps", "turbo", building);
}
// Ctrl-C reaches the command, which may print something before it ends.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
const child = spawn(command, commandArgs, { cwd: root, env, shell: onWindows, stdio: "inherit" });
child.on("error", (error) => fail(`could not run ${command}: ${error.message}`));
child.on("exit", (status, signal) => {
  process.exitCode = status ?? 128 + constants.signals[signal];
});

/** Returns the folder to prepend to PATH, or undefined if the machine's own tools are suitable. */
function toolchainPath() {
  if (nodeWillDo() && pnpmWillDo()) {
    return undefined;
  }
  const bin = join(folder, "node_modules", ".bin");
  const stamp = join(folder, "package.json");
  const wanted = JSON.stringify({
    private: true,
    dependencies: { node: nodeVersion, pnpm: pnpmVersion },
  });
  if (existsSync(bin) && readFileSync(stamp, "utf8") === wanted) {
    return bin;
  }
  process.stderr.write(`installing node ${nodeVersion} and pnpm ${pnpmVersion} from npm …\n`);
  const began = performance.now();
  mkdirSync(folder, { recursive: true });
  writeFileSync(stamp, wanted);
  const install = spawnSync(
    "npm",
    ["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: folder, stdio: ["ignore", "ignore", "inherit"], shell: onWindows },
  );
  if (install.status !== 0) {
    writeFileSync(stamp, "");
    fail(
      `npm could not install node@${nodeVersion} and pnpm@${pnpmVersion} into ${folder}. ` +
        "Check that npm reaches its registry, or install Node >= 22.18 and pnpm yourself.",
    );
  }
  process.stderr.write(`  done in ${Math.round((performance.now() - began) / 1_000)} s\n`);
  return bin;
}

function nodeWillDo() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 18);
}

function pnpmWillDo() {
  const found = spawnSync("pnpm", ["--version"], { encoding: "utf8", shell: onWindows });
  return found.status === 0;
}

/**
 * Runs a program. Its output is shown only if it fails, which ends this process. If it takes more than a second,
 * its purpose and its duration are printed.
 */
async function prepare(purpose, program, programArgs) {
  const began = performance.now();
  let announced = false;
  const announcing = setTimeout(() => {
    announced = true;
    process.stderr.write(`${purpose} …\n`);
  }, 1_000);
  const running = spawn(program, programArgs, {
    cwd: root,
    env,
    shell: onWindows,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = [];
  running.stdout.on("data", (chunk) => output.push(chunk));
  running.stderr.on("data", (chunk) => output.push(chunk));
  const [status, signal] = await once(running, "close").catch((error) =>
    fail(`could not run ${program}: ${error.message}`),
  );
  clearTimeout(announcing);
  if (status !== 0) {
    process.stderr.write(Buffer.concat(output));
    fail(`${program} ${programArgs.join(" ")} failed with ${signal ?? `exit code ${status}`}`);
  }
  if (announced) {
    process.stderr.write(`  done in ${Math.round((performance.now() - began) / 1_000)} s\n`);
  }
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
