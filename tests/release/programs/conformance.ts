// SPDX-License-Identifier: Apache-2.0
import { match } from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { serve } from "@dm-env-rpc/server";
import { adder } from "./world.ts";

const checker = async (...args: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)("node_modules/.bin/dm-env-rpc-conformance", args);
  return stdout;
};

match(await checker("--help"), /usage: dm-env-rpc-conformance --address/);
await using server = await serve({ worlds: [adder] });
writeFileSync("adder.json", JSON.stringify({ create: { start: { int32: 1 } }, clock: "lockstep" }));
const address = `${server.host}:${server.port}`;
const report = await checker("--address", address, "--config", "adder.json");
match(report, /[1-9]\d* passed, 0 failed/);
