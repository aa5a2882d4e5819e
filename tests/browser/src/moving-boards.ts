// SPDX-License-Identifier: Apache-2.0
// Draws the moving picture of the README from a real run of npm start: node tests/browser/src/moving-boards.ts
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { SpectatorService, type WatchWorldResponse } from "@dm-env-rpc/protocol/spectator";
import { startApp } from "./apps.ts";

const file = join(import.meta.dirname, "../../../docs/screenshots/boards.svg");

/** Frames of each board, and the time of each in seconds. */
const frames = 50;
const frameSeconds = 0.2;

/** Edge of a board in the picture. */
const side = 320;

await using demo = await startApp("demo", ["--forever"]);
const baseUrl = demo.firstLine.replace("watch at ", "");
const spectators = createClient(SpectatorService, createGrpcTransport({ baseUrl }));

const boards = await Promise.all((await worldsOf(2)).map(framesOf));
const drawn = boards.map((pictures, board) => drawBoard(pictures, board * (side + 16)));
const width = boards.length * (side + 16) - 16;
const label = "Two boards of npm start: agents walk to food and collect it together";
await writeFile(
  file,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${side}" width="${width}" height="${side}" role="img" aria-label="${label}">
<style>image{image-rendering:pixelated}</style>
${drawn.join("\n")}
</svg>
`,
);
process.stdout.write(`${file}\n`);

/** Returns the names of worlds once there are as many as expected. */
async function worldsOf(count: number): Promise<readonly string[]> {
  for await (const { worlds } of spectators.watchWorlds({})) {
    const busy = worlds.filter(({ agents, ticks }) => agents === 4 && ticks > 0n);
    if (busy.length === count) {
      return busy.map(({ name }) => name);
    }
  }
  throw new Error(`expected ${count} worlds with four agents, and the demo ended before`);
}

/** Returns pictures of a world as PNG files. */
async function framesOf(world: string): Promise<readonly Uint8Array[]> {
  const pictures: Uint8Array[] = [];
  for await (const response of spectators.watchWorld({ world, maxRate: 1 / frameSeconds })) {
    pictures.push(pngOf(response));
    if (pictures.length === frames) {
      return pictures;
    }
  }
  throw new Error(`expected ${frames} frames of ${world}, received ${pictures.length}`);
}

function pngOf({ view }: WatchWorldResponse): Uint8Array {
  if (view.case !== "picture" || view.value.mediaType !== "image/png") {
    throw new Error(`expected a PNG picture, received ${view.case ?? "no view"}`);
  }
  return view.value.data;
}

/** Shows one frame after the other, in an endless loop. */
function drawBoard(pictures: readonly Uint8Array[], x: number): string {
  const duration = (pictures.length * frameSeconds).toFixed(1);
  return pictures
    .map((png, index) => {
      const [from, to] = [index / pictures.length, (index + 1) / pictures.length];
      const values = index === 0 ? "visible;hidden;hidden" : "hidden;visible;hidden";
      const times = index === 0 ? `0;${to};1` : `0;${from};${to}`;
      const href = `data:image/png;base64,${Buffer.from(png).toString("base64")}`;
      return `<image x="${x}" width="${side}" height="${side}" href="${href}"${index === 0 ? "" : ' visibility="hidden"'}><animate attributeName="visibility" values="${values}" keyTimes="${times}" calcMode="discrete" dur="${duration}s" repeatCount="indefinite"/></image>`;
    })
    .join("\n");
}
