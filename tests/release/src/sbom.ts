// SPDX-License-Identifier: Apache-2.0
// Writes the SBOM of a release, CycloneDX from `npm sbom`: every published package and what
// npm installs for it. Argument: the file to write.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { run } from "./run.ts";
import { packAll, type Tarball } from "./tarballs.ts";

/** The parts of an SBOM that are checked and changed. */
interface Sbom {
  readonly bomFormat: string;
  readonly components: Component[];
}

interface Component {
  readonly name: string;
  readonly version: string;
  readonly hashes?: unknown;
  readonly externalReferences: readonly { readonly type: string; readonly url: string }[];
}

const [file] = process.argv.slice(2);
if (file === undefined) {
  throw new Error("usage: npm run sbom -- FILE");
}
const scratch = mkdtempSync(join(tmpdir(), "sbom-"));
try {
  const tarballs = await packAll(scratch);
  const sbom: Sbom = JSON.parse(await sbomOf(tarballs, join(scratch, "dm-env-rpc")));
  for (const { name } of tarballs) {
    const at = sbom.components.findIndex((component) => component.name === name);
    const packed = sbom.components[at];
    if (sbom.bomFormat !== "CycloneDX" || packed === undefined) {
      throw new Error(`the SBOM lacks ${name}`);
    }
    sbom.components[at] = asPublished(packed);
  }
  mkdirSync(dirname(resolve(file)), { recursive: true });
  writeFileSync(resolve(file), `${JSON.stringify(sbom, undefined, 2)}\n`);
  const others = sbom.components.length - tarballs.length;
  process.stdout.write(`wrote ${file}: ${tarballs.length} packages, ${others} dependencies\n`);
} finally {
  rmSync(scratch, { recursive: true });
}

/** Refers to the package on npm, whose tarball is packed again when it is published. */
function asPublished({ hashes: _, ...component }: Component): Component {
  const { name, version } = component;
  const url = `https://registry.npmjs.org/${name}/-/${basename(name)}-${version}.tgz`;
  return {
    ...component,
    externalReferences: component.externalReferences.map((reference) =>
      reference.type === "distribution" ? { ...reference, url } : reference,
    ),
  };
}

/** Installs all packages with npm, without their peers, and returns the SBOM of the project. */
async function sbomOf(tarballs: readonly Tarball[], folder: string): Promise<string> {
  mkdirSync(folder);
  const manifest = {
    name: "dm-env-rpc",
    version: tarballs[0]?.manifest.version,
    license: "Apache-2.0",
    private: true,
    dependencies: Object.fromEntries(tarballs.map(({ name, path }) => [name, `file:${path}`])),
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps"];
  await run("npm", ["install", ...quiet], { cwd: folder });
  return await run("npm", ["sbom", "--sbom-format", "cyclonedx", "--legacy-peer-deps"], {
    cwd: folder,
  });
}
