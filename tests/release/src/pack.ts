// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { root } from "./run.ts";
import { packAll } from "./tarballs.ts";

const usage = `Usage: npm run pack [-- FOLDER]

Packs all packages as they will be on npm and prints the line that installs them in your project.
  FOLDER  for the tarballs, whose old ones are deleted   [default: packs, in the clone]
`;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { help: { type: "boolean" } },
});
if (values.help || positionals.length > 1) {
  process.stdout.write(usage);
} else {
  await pack(resolve(positionals[0] ?? join(root, "packs")));
}

async function pack(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(folder).filter((name) => /^dm-env-rpc-.*\.tgz$/.test(name))) {
    rmSync(join(folder, file));
  }
  const tarballs = await packAll(folder);
  process.stdout.write(`Packed ${tarballs.length} packages in ${folder}.

To install them in your project, paste this line there:
  npm install ${quoted(folder)}/*.tgz

To create a project that serves a world, paste this line where its folder will be:
  node ${quoted(join(root, "packages/create/dist/main.js"))} my-world && cd my-world && npm install ${quoted(folder)}/*.tgz
`);
}

/** Quotes a path for the shell if it needs quotes. */
function quoted(path: string): string {
  return /^[\w/.@-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
