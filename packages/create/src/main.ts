#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";

const help = `Makes a project that serves a world of your own to dm_env_rpc agents.

usage: npm create @dm-env-rpc FOLDER

  FOLDER                 a folder that is empty or not there yet; "." is this one.
                         Its name is the project's
  --help, --version

Then, in the folder: npm install, npm test, npm start.
`;

async function main(): Promise<void> {
  const manifest = readManifest("../package.json");
  checkNode(readManifest("../template/package.json").engines.node);
  // Only now: an older Node may not even load them.
  const { readArguments } = await import("./arguments.ts");
  const { createProject } = await import("./create-project.ts");
  const asked = readArguments(process.argv.slice(2));
  switch (asked.show) {
    case "help":
      process.stdout.write(help);
      return;
    case "version":
      process.stdout.write(`${manifest.version}\n`);
      return;
    case undefined: {
      const { folder } = asked;
      const name = await createProject(folder, manifest.version);
      const lines = ["npm install", "npm test", "npm start"];
      if (folder !== ".") {
        lines.unshift(`cd ${folder}`);
      }
      process.stdout.write(`Made ${name}. Next:\n\n  ${lines.join("\n  ")}\n\n`);
    }
  }
}

function readManifest(path: string) {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
}

/** @throws Error when this Node is older than `range`, such as `>=22.18`. */
function checkNode(range: string): void {
  const [wantedMajor = 0, wantedMinor = 0] = range.replace(">=", "").split(".").map(Number);
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) {
    return;
  }
  throw new Error(
    `expected Node ${wantedMajor}.${wantedMinor} or later, which runs TypeScript as it is; ` +
      `this is Node ${process.versions.node}: install a later one from https://nodejs.org`,
  );
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
