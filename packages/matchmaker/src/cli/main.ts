#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { run } from "./run.ts";

const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort());
process.once("SIGTERM", () => interrupted.abort());
// A reader such as `head` may close the pipe early.
process.stdout.on("error", () => interrupted.abort());

process.exitCode = await run({
  args: process.argv.slice(2),
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
  readFile: (path) => readFileSync(path, "utf8"),
  version: () =>
    JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version,
  now: () => Date.now(),
  signal: interrupted.signal,
});
