// SPDX-License-Identifier: Apache-2.0
// Serves the example's canvas game from a page of Chromium, through a relay, until the process is ended:
// node tests/browser/src/relayed-page.ts
import { fileURLToPath } from "node:url";
import { serveRelay } from "@dm-env-rpc/relay";
import { bundle, chromium, openScript } from "@dm-env-rpc/tests-processes/browser";

const token = "token-of-the-page";
const world = fileURLToPath(new URL("../../../examples/canvas-game/src/world.ts", import.meta.url));
const { script } = await bundle(
  `
  import { dialOut } from "@dm-env-rpc/server";
  import { server } from ${JSON.stringify(world)};
  globalThis.dial = async (relay, token) => {
    const { program, address } = await dialOut(server, { relay, token });
    return { program, address };
  };
`,
  import.meta.dirname,
);
await using opened = await openScript(chromium(), script, "dial");
const { page, origin } = opened;
await using relay = await serveRelay({
  programs: [{ name: "game", token }],
  allowedOrigins: [origin],
  // A page that stalls with the machine is not lost.
  limits: { programPingMs: 60_000 },
});
const { address } = await page.evaluate(
  (to, secret) => globalThis.dial(to, secret),
  relay.url.replace("http", "ws"),
  token,
);
process.stdout.write(`listening on ${address}\n`);
await new Promise((resolve) => process.on("SIGTERM", resolve));
