#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";

const help = `Creates a project that serves your own world to dm_env_rpc agents.

usage: npm create @dm-env-rpc FOLDER

  FOLDER                 an empty or new folder, whose name becomes the project's;
                         "." is the current folder
  --help, --version

Then, in the folder: npm install, npm test, npm start.
`;

async function main(): Promise<void> {
  const manifest = readManifest("../package.json");
  checkNode(readManifest("../template/package.json").engines.node);
  // Loaded only now, because an older Node may fail to load them.
  const { readArguments } = await import("./arguments.ts");
  const { createProject } = await import("./create-project.ts");
  const parsed = readArguments(process.argv.slice(2));
  switch (parsed.show) {
    case "help":
      process.stdout.write(help);
      return;
    case "version":
      process.stdout.write(`${manifest.version}\n`);
      return;
    case undefined: {
      const { folder } = parsed;
      const name = await createProject(folder, manifest.version);
      const lines = ["npm install", "npm test", "npm start"];
      if (folder !== ".") {
        lines.unshift(`cd ${folder}`);
      }
      process.stdout.write(`Created ${name}. Next:\n\n  ${lines.join("\n  ")}\n\n`);
    }
  }
}

function readManifest(path: string) {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
}

/** @throws Error if this Node is older than `range`, such as `>=22.18`. */
function checkNode(range: string): void {
  const [wantedMajor = 0, wantedMinor = 0] = range.replace(">=", "").split(".").map(Number);
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) {
    return;
  }
  throw new Error(
    `expected Node ${wantedMajor}.${wantedMinor} or later, which runs TypeScript without a build; ` +
      `received Node ${process.versions.node}; install a later version from https://nodejs.org`,
  );
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
