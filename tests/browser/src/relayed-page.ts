// SPDX-License-Identifier: Apache-2.0
// Serves the example's canvas game from a page of Chromium, through a relay, until the process is ended:
// node tests/browser/src/relayed-page.ts
import { fileURLToPath } from "node:url";
import { serveRelay } from "@dm-env-rpc/relay";
import { installedBrowsers, openPage } from "./browsers.ts";
import { bundle, serveSite } from "./page-server.ts";

const token = "token-of-the-page";
const world = fileURLToPath(new URL("../../../examples/canvas-game/src/world.ts", import.meta.url));
const chromium = installedBrowsers.find(({ name }) => name === "chrome");
if (chromium === undefined) {
  throw new Error("no Chromium on this machine: expected /usr/bin/chromium; install it");
}
const { script } = await bundle(`
  import { dialOut } from "@dm-env-rpc/server";
  import { server } from ${JSON.stringify(world)};
  globalThis.dial = async (relay, token) => {
    const { program, address } = await dialOut(server, { relay, token });
    return { program, address };
  };
`);
await using site = await serveSite(script);
await using relay = await serveRelay({
  programs: [{ name: "game", token }],
  allowedOrigins: [site.origin],
});
await using opened = await openPage(chromium, site.origin);
const { page } = opened;
await page.waitForFunction(() => "dial" in globalThis);
const { address } = await page.evaluate(
  (to, secret) => globalThis.dial(to, secret),
  relay.url.replace("http", "ws"),
  token,
);
process.stdout.write(`listening on ${address}\n`);
await new Promise((resolve) => process.on("SIGTERM", resolve));
