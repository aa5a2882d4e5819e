// SPDX-License-Identifier: Apache-2.0
// Serves meadows with the given server module and clock, and prints the address.
import { pathToFileURL } from "node:url";
import { meadow } from "./meadow.ts";
import { meadowClock } from "./meadow-clocks.ts";

const [, , path = "", clock = "lockstep"] = process.argv;
const module: typeof import("@dm-env-rpc/server") = await import(pathToFileURL(path).href);
const server = await module.serve({
  worlds: [meadow(meadowClock(module, clock))],
});
process.stdout.write(`${server.host}:${server.port}\n`);
