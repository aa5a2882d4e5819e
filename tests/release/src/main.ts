// SPDX-License-Identifier: Apache-2.0
import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Checks } from "./checks.ts";
import { compile } from "./compile.ts";
import { modulesOf, writeConsumers } from "./consumers.ts";
import { bringNode, declares, type Node, nodeVersions } from "./nodes.ts";
import { bytesInPage } from "./page-size.ts";
import { followPrintedLines } from "./printed-lines.ts";
import { makeProject, type Project } from "./project.ts";
import { printTable, type Row, writeReport } from "./report.ts";
import { root, run } from "./run.ts";
import { packAll, type Tarball } from "./tarballs.ts";

/** Packages that users of optional peers or of the generated messages install in addition. */
const besides = {
  "@bufbuild/protobuf": "^2.17.0",
  "prom-client": "^15.0.0",
  redis: "^6.0.0",
  vite: "^8.0.0",
  vitest: "^5.0.0",
};

/** The client and a server as pages have them, and their most bytes there, minified and compressed. */
const inPages = [
  {
    name: "client",
    most: 60 * 1024,
    module: 'import { connect } from "@dm-env-rpc/client"; globalThis.connect = connect;',
  },
  {
    name: "client-and-vectors",
    most: 70 * 1024,
    module: `
      import { connect } from "@dm-env-rpc/client";
      import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
      Object.assign(globalThis, { connect, remoteSlots, vectorize });`,
  },
  {
    name: "server",
    most: 80 * 1024,
    module: `
      import { createEnvironmentServer, defineEnvironment, defineWorld } from "@dm-env-rpc/server";
      Object.assign(globalThis, { createEnvironmentServer, defineEnvironment, defineWorld });`,
  },
];

const scratch = mkdtempSync(join(tmpdir(), "release-check-"));
const checks = new Checks();
try {
  const nodes = await bringNodes();
  const tarballs = await packAll(scratch);
  const rows: Row[] = [];
  for (const tarball of tarballs) {
    rows.push(await checkAlone(tarball, tarballs, nodes));
  }
  await checkTogether(tarballs, nodes);
  const following = mkdtempSync(join(scratch, "packed of a clone "));
  await checks.check("the lines that npm run pack prints install the packages", () =>
    followPrintedLines(following),
  );
  printTable(rows);
  writeReport(rows, checks.results);
} finally {
  rmSync(scratch, { recursive: true });
}
const { failed, results } = checks;
for (const { name } of failed) {
  process.stderr.write(`failed: ${name}\n`);
}
process.stdout.write(`${results.length - failed.length} checks passed, ${failed.length} failed\n`);
process.exitCode = failed.length > 0 ? 1 : 0;

async function bringNodes(): Promise<readonly Node[]> {
  const nodes: Node[] = [];
  for (const version of nodeVersions) {
    await checks.check(`npm has node ${version}, and it runs here`, async () => {
      nodes.push(await bringNode(version));
    });
  }
  return nodes;
}

/** Checks one package in its own project: its types, every module as ESM and as CommonJS, and its programs. */
async function checkAlone(
  tarball: Tarball,
  tarballs: readonly Tarball[],
  nodes: readonly Node[],
): Promise<Row> {
  const { name, path, manifest } = tarball;
  const folder = join(scratch, "alone", basename(name));
  const row = { name, packedBytes: tarball.bytes, installedBytes: Number.NaN, nodes: [] };
  let project: Project | undefined;
  const installs = await checks.check(`${name} installs from its tarball`, async () => {
    project = await makeProject(folder, { [name]: `file:${path}` }, tarballs);
  });
  if (!installs || project === undefined) {
    return row;
  }
  const { installedBytes } = project;
  writeConsumers(folder, modulesOf(tarball, false));
  const node = manifest.peerDependencies?.["@types/node"] !== undefined;
  const compiles = await checks.check(`${name} has types that are right, as ESM and CommonJS`, () =>
    compile(folder, { node, checkDependencies: true }),
  );
  if (!compiles) {
    return { ...row, installedBytes };
  }
  const declared = nodes.filter(({ version }) => declares(manifest.engines.node, version));
  const good = await checkModules(name, folder, Object.keys(manifest.bin ?? {}), declared);
  return { ...row, installedBytes, nodes: good };
}

/**
 * Loads the modules of a project and runs its programs.
 *
 * @returns The versions of Node on which everything passed.
 */
async function checkModules(
  name: string,
  cwd: string,
  bins: readonly string[],
  nodes: readonly Node[],
): Promise<readonly string[]> {
  const good: string[] = [];
  for (const { version, bin } of nodes) {
    const load = (file: string): Promise<string> =>
      run(join(bin, "node"), ["--no-warnings", join("dist", file)], { cwd });
    const loads = await checks.check(
      `${name} is imported and required on node ${version}`,
      async () => {
        const [imported, required] = [await load("import.mjs"), await load("require.cjs")];
        if (imported !== required) {
          throw new Error(`as ESM:\n${imported}as CommonJS:\n${required}`);
        }
        for (const file of bins) {
          await run(join("node_modules/.bin", file), ["--help"], { cwd, path: bin });
        }
      },
    );
    if (loads) {
      good.push(version);
    }
  }
  return good;
}

async function checkPages(folder: string): Promise<void> {
  for (const { name, most, module } of inPages) {
    await checks.check(`the ${name} in a page is at most ${most / 1024} KiB`, async () => {
      const bytes = await bytesInPage(folder, name, module);
      process.stdout.write(`      ${name}: ${(bytes / 1024).toFixed(1)} KiB gzip in a page\n`);
      if (bytes > most) {
        throw new Error(`expected at most ${most} bytes, received ${bytes}`);
      }
    });
  }
}

/** Checks all packages and their peers in one project: every module, and programs that use them. */
async function checkTogether(tarballs: readonly Tarball[], nodes: readonly Node[]): Promise<void> {
  const folder = join(scratch, "together");
  const all = Object.fromEntries(tarballs.map(({ name, path }) => [name, `file:${path}`]));
  const programs = join(root, "tests/release/programs");
  const names = readdirSync(programs);
  const ready = await checks.check(
    "all packages and their peers install and compile together",
    async () => {
      await makeProject(folder, { ...all, ...besides }, tarballs);
      writeConsumers(
        folder,
        tarballs.flatMap((tarball) => modulesOf(tarball, true)),
      );
      for (const name of names) {
        copyFileSync(join(programs, name), join(folder, "src", name));
      }
      copyFileSync(join(root, "examples/hello-world/src/main.ts"), join(folder, "src/readme.ts"));
      await compile(folder, { node: true, checkDependencies: false });
    },
  );
  if (!ready) {
    return;
  }
  await checkModules("every package with its peers", folder, [], nodes);
  await checkPages(folder);
  for (const { version, bin } of nodes.filter((node) => declares(">=22.18", node.version))) {
    await checks.check(`the README's program runs as it is on node ${version}`, async () => {
      await run(join(bin, "node"), ["src/readme.ts"], { cwd: folder, path: bin });
    });
  }
  for (const name of ["readme.ts", ...names].filter((file) => file !== "world.ts")) {
    const program = join("dist", name.replace(/\.ts$/, ".js"));
    for (const { version, bin } of nodes) {
      await checks.check(`the program ${name} runs on node ${version}`, async () => {
        await run(join(bin, "node"), [program], { cwd: folder, path: bin });
      });
    }
  }
}
