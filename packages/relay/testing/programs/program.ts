// SPDX-License-Identifier: Apache-2.0
// A program behind a relay as a process: node program.ts RELAY TOKEN
import { createEnvironmentServer, dialOut } from "@dm-env-rpc/server";
import { counting } from "../counting.ts";

const [relay = "", token = ""] = process.argv.slice(2);
const server = createEnvironmentServer({ worlds: [counting], premade: [{}] });
const place = await dialOut(server, { relay, token });
process.stdout.write(`listening on ${place.address}\n`);
