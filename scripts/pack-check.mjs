// SPDX-License-Identifier: Apache-2.0
// Packs the package in the current folder as it would be published, and checks the
// tarball: publint, attw, the manifest, and that it contains only the documented sources
// and the files built from them. Prints every problem, and exits 1 if there is one.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";

const home = "https://github.com/dm-env-rpc-ts/dm-env-rpc";
const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const folder = posix.join("packages", manifest.name.replace("@dm-env-rpc/", ""));
const scratch = mkdtempSync(join(tmpdir(), "pack-check-"));
const problems = [];

try {
  const packed = JSON.parse(
    execFileSync("pnpm", ["pack", "--json", "--pack-destination", scratch], { encoding: "utf8" }),
  );
  checkManifest();
  checkFiles(packed.files.map(({ path }) => path));
  lint("publint", "run", "--strict", packed.filename);
  lint("attw", "--profile", "esm-only", "--no-emoji", packed.filename);
} finally {
  rmSync(scratch, { recursive: true });
}
for (const problem of problems) {
  process.stderr.write(`${manifest.name}: ${problem}\n`);
}
if (problems.length === 0) {
  process.stdout.write(`${manifest.name}: fit to publish\n`);
}
process.exitCode = problems.length > 0 ? 1 : 0;

function checkManifest() {
  const wanted = {
    type: "module",
    license: "Apache-2.0",
    sideEffects: false,
    homepage: `${home}/tree/main/${folder}#readme`,
    bugs: `${home}/issues`,
    repository: { type: "git", url: `git+${home}.git`, directory: folder },
    publishConfig: { access: "public", provenance: true },
  };
  for (const [field, value] of Object.entries(wanted)) {
    const [expected, found] = [JSON.stringify(value), JSON.stringify(manifest[field])];
    if (found !== expected) {
      problems.push(`package.json: ${field} is ${found}, not ${expected}`);
    }
  }
  if (!/^>=22\.\d+$/.test(manifest.engines?.node)) {
    problems.push(
      "package.json: engines.node is not the lowest Node 22 that will do, such as >=22.12",
    );
  }
  if (!manifest.keywords?.includes("dm_env_rpc")) {
    problems.push("package.json: keywords do not include dm_env_rpc");
  }
  const { fixed } = JSON.parse(readFileSync("../../.changeset/config.json", "utf8"));
  if (!fixed.flat().includes(manifest.name)) {
    problems.push(".changeset/config.json: the fixed group does not have it");
  }
  for (const script of ["preinstall", "install", "postinstall", "prepare"]) {
    if (manifest.scripts[script]) {
      problems.push(`package.json: ${script} runs where it is installed`);
    }
  }
}

/** dist/x.js, .d.ts and their maps come from src/x.ts, which is packed for the maps. */
function checkFiles(files) {
  const inside = new Set(files);
  for (const file of ["LICENSE", "README.md", "package.json"]) {
    if (!inside.delete(file)) {
      problems.push(`${file} is missing from the package`);
    }
  }
  for (const file of inside) {
    // The files that packages/page builds are packed unchanged.
    if (file.startsWith("template/") || file.startsWith("dist/page/assets/")) {
      continue;
    }
    if (/\.(test|test-d)\.|(^|\/)(testing|fuzz|golden|reports)\//.test(file)) {
      problems.push(`${file} is for the developers of the package: leave it out with "files"`);
    } else if (file.startsWith("dist/")) {
      const source = file.replace(/^dist/, "src").replace(/(\.d\.ts|\.js)(\.map)?$/, ".ts");
      if (!inside.has(source)) {
        problems.push(
          `${file} is built from ${source}, which is not inside: delete dist and build`,
        );
      }
    } else if (!/^src\/.*\.ts$/.test(file)) {
      problems.push(`${file} is neither a source nor built from one`);
    }
  }
}

function lint(program, ...args) {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) {
    problems.push(`${program} found faults\n${stdout}${stderr}`);
  }
}
