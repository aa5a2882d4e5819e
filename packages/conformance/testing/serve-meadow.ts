// SPDX-License-Identifier: Apache-2.0
// Serves meadows with the server whose module is given, and prints the address.
import { pathToFileURL } from "node:url";
import { meadow } from "./meadow.ts";

const { lockstep, serve }: typeof import("@dm-env-rpc/server") = await import(
  pathToFileURL(process.argv[2] ?? "").href
);
const server = await serve({ worlds: [meadow(lockstep())] });
process.stdout.write(`${server.host}:${server.port}\n`);
