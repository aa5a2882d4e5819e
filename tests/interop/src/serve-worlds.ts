// SPDX-License-Identifier: Apache-2.0
// Serves each world of the tests on a separate port and prints their
// addresses by name as one line of JSON. Ends when its standard input ends.
import { tug } from "@dm-env-rpc/example-matchmade";
import { stone } from "@dm-env-rpc/example-realtime";
import { catching } from "@dm-env-rpc/example-run-loops";
import { ticTacToe } from "@dm-env-rpc/example-tic-tac-toe";
import { walk } from "@dm-env-rpc/example-vectorized";
import { serve } from "@dm-env-rpc/server";
import { worldOfProgram } from "./world-of-program.ts";
import { bounds } from "./worlds/bounds.ts";
import { echo } from "./worlds/echo.ts";
import { everyAction } from "./worlds/every-action.ts";
import { exacting } from "./worlds/exacting.ts";
import { garden, toolShed } from "./worlds/garden.ts";
import { mirror } from "./worlds/mirror.ts";
import { signposts } from "./worlds/signposts.ts";

const helloWorld = new URL("../../../examples/hello-world/src/main.ts", import.meta.url);
const servers = {
  bounds: await serve({ worlds: [bounds] }),
  catch: await serve({ worlds: [catching] }),
  echo: await serve({ worlds: [echo] }),
  "every-action": await serve({ worlds: [everyAction] }),
  exacting: await serve({ worlds: [exacting] }),
  garden: await serve({ worlds: [garden], properties: toolShed(), premade: [{}] }),
  mirror: await serve({ worlds: [mirror] }),
  "narrow-echo": await serve({ worlds: [echo], limits: { maxMessageBytes: 10_000 } }),
  race: await serve({ worlds: [await worldOfProgram(helloWorld, "race")] }),
  signposts: await serve({ worlds: [signposts] }),
  stone: await serve({ worlds: [stone] }),
  "tic-tac-toe": await serve({ worlds: [ticTacToe] }),
  tug: await serve({ worlds: [tug] }),
  walk: await serve({ worlds: [walk] }),
};
const addresses = Object.entries(servers).map(([name, { url }]) => [name, new URL(url).host]);
process.stdout.write(`${JSON.stringify(Object.fromEntries(addresses))}\n`);
process.stdin.resume();
await new Promise((resolve) => process.stdin.once("end", resolve));
await Promise.all(Object.values(servers).map((server) => server.close()));
