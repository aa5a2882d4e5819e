// SPDX-License-Identifier: Apache-2.0
// Runs a registered server of worlds as a process: node world-server.ts MATCHMAKER...
import { serveCounting } from "../world-server.ts";

const { server, registration } = await serveCounting(process.argv.slice(2));
await registration.registered;
process.stdout.write(`listening on ${server.url}\n`);
