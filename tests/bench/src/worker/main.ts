// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { createInterface } from "node:readline";
import { type LoadName, loadOf } from "../loads/load.ts";
import { peerOf } from "../peers/index.ts";
import { createAgents } from "./agents.ts";
import { countCollections } from "./collections.ts";
import type { Commands } from "./protocol.ts";

type Command = { [K in keyof Commands]: { do: K } & Commands[K]["ask"] }[keyof Commands];

const gcMs = countCollections();
const agents = createAgents(gcMs);

async function run(command: Command): Promise<object> {
  switch (command.do) {
    case "serve": {
      const { serve } = await peerOf(command.peer);
      if (serve === undefined) {
        throw new Error(`"${command.peer}" has no server`);
      }
      const { port } = await serve(loadOf(command.load as LoadName), command.relay);
      return { port };
    }
    case "connect":
      await agents.connect(command);
      return {};
    case "play":
      return agents.play(command);
    case "close":
      await agents.close(command.group);
      return {};
    case "usage": {
      if (command.collect === true) {
        globalThis.gc?.();
      }
      const { user, system } = process.cpuUsage();
      return { cpuMs: (user + system) / 1000, gcMs: gcMs(), rssBytes: process.memoryUsage.rss() };
    }
    case "versions":
      return { versions: versions() };
    case "missing":
      throw new Error("every peer in Node is installed");
  }
}

function versions(): Record<string, string> {
  const names = ["@connectrpc/connect-node", "@bufbuild/protobuf", "@grpc/grpc-js"];
  const found = names.map((name) => {
    const manifest = findPackageJSON(name, import.meta.url);
    if (manifest === undefined) {
      throw new Error(`${name} is not installed`);
    }
    const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
    return [name, version] as const;
  });
  return { node: process.versions.node, ...Object.fromEntries(found) };
}

const say = (answer: object): boolean => process.stdout.write(`${JSON.stringify(answer)}\n`);

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  run(JSON.parse(line) as Command).then(
    (answer) => say(answer),
    (error: unknown) => say({ error: error instanceof Error ? error.stack : String(error) }),
  );
});
lines.on("close", () => process.exit());
