#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { lockstep, serve } from "@dm-env-rpc/server";
import { help, readFlags } from "./flags.ts";
import { gridworld } from "./world.ts";

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2));
  if (flags.show === "help") {
    process.stdout.write(help);
    return;
  }
  if (flags.show === "version") {
    const manifest = new URL("../package.json", import.meta.url);
    process.stdout.write(`${JSON.parse(readFileSync(manifest, "utf8")).version}\n`);
    return;
  }
  const { host, port, deadlineMs, allowInsecure } = flags;
  const clock = lockstep(
    deadlineMs === 0 ? {} : { deadlineMs, onMissedDeadline: "default-action" },
  );
  const server = await serve({
    worlds: [gridworld(clock)],
    host,
    port,
    allowInsecure,
    onEvent: (event) => {
      if (event.kind === "world-failed" || event.kind === "transport-error") {
        process.stderr.write(`${event.kind}: ${event.error.message}\n`);
      }
    },
  });
  process.stdout.write(`listening on ${server.url}\n`);

  const stop = (): void => {
    server.close().then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}

function fail(error: unknown): void {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

main().catch(fail);
