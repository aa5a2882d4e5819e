// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { type Relay, serveRelay } from "@dm-env-rpc/relay";
import {
  bundle,
  chromium,
  type OpenedScript,
  openScript,
} from "@dm-env-rpc/tests-processes/browser";
import { startNode, startPython } from "../harness/child.ts";
import { quantile } from "../harness/statistics.ts";
import type { Options } from "../options.ts";
import { programToken } from "./relayed.ts";

const pageToken = "token-of-the-page";

/** A world of the small step in a page. */
const boardPage = `
  import { createEnvironmentServer, dialOut } from "@dm-env-rpc/server";
  import { boardWorld } from ${JSON.stringify(fileURLToPath(new URL("../loads/worlds.js", import.meta.url)))};
  const server = createEnvironmentServer({ worlds: [boardWorld] });
  globalThis.dial = async (relay, token) => (await dialOut(server, { relay, token })).address;
`;

/** Ticks/s to which the clock of the canvas is set. */
export const canvasFps = 75;

/** A canvas that is drawn on each animation frame, as an environment. */
const canvasPage = `
  import { createEnvironmentServer, dialOut } from "@dm-env-rpc/server";
  import { canvasEnvironment } from "@dm-env-rpc/server/canvas";
  const canvas = document.createElement("canvas");
  canvas.width = 320;
  canvas.height = 240;
  document.body.append(canvas);
  const context = canvas.getContext("2d");
  let frame = 0;
  const draw = () => {
    frame += 1;
    context.fillStyle = "#102040";
    context.fillRect(0, 0, 320, 240);
    context.fillStyle = "#ffd700";
    context.fillRect((frame * 3) % 300, 100, 20, 20);
    requestAnimationFrame(draw);
  };
  draw();
  const world = canvasEnvironment({
    canvas, width: 84, height: 84, keys: ["ArrowLeft", "ArrowRight"], fps: ${canvasFps},
    reward: () => 0, done: () => false, reset() {},
  });
  const server = createEnvironmentServer({ worlds: [world], singleWorld: true, premade: [{}] });
  globalThis.dial = async (relay, token) => (await dialOut(server, { relay, token })).address;
`;

/** Steps/s of the small step in lock-step, in turns: of a server in Node, the same behind a relay, and one in a page. */
export interface LockStep {
  readonly direct: readonly number[];
  readonly relayed: readonly number[];
  readonly page: readonly number[];
}

/** Ticks of a canvas that the official Python client saw. */
export interface Canvas {
  readonly ticksPerSecond: number;
  /** Of the slowest slice of the time. */
  readonly slowest: number;
  /** Milliseconds between ticks. */
  readonly p99Ms: number;
  readonly seconds: number;
}

/** Measures lock-step with a world in a page, and how much of the time its relay takes. */
export async function measureLockStep(
  options: Options,
  onProgress: (text: string) => void,
): Promise<LockStep> {
  const [turns, turnMs, warmUpMs] = options.quick ? [5, 500, 1_500] : [24, 1_000, 5_000];
  await using relay = await relayOf();
  const direct = startNode(options, "ours-server");
  const relayed = startNode(options, "relayed-server");
  const client = startNode(options, "page-client");
  try {
    await using opened = await openProgram(boardPage);
    const ports = {
      direct: (await direct.ask("serve", { peer: "ours", load: "board" })).port,
      relayed: (
        await relayed.ask("serve", { peer: "relayed", load: "board", relay: addressOf(relay) })
      ).port,
      page: await portOf(opened, relay),
    };
    const groups = ["direct", "relayed", "page"] as const;
    const play = async (group: string, durationMs: number): Promise<number> => {
      const { steps, elapsedMs } = await client.ask("play", { group, inFlight: 1, durationMs });
      return (steps * 1_000) / elapsedMs;
    };
    for (const group of groups) {
      onProgress(`warming up a world: ${group}`);
      const connect = { group, peer: "ours", load: "board", connections: 1, inFlight: 1 };
      await client.ask("connect", { ...connect, port: ports[group] });
      await play(group, warmUpMs);
    }
    const rates = { direct: [] as number[], relayed: [] as number[], page: [] as number[] };
    for (let turn = 1; turn <= turns; turn++) {
      onProgress(`turn ${turn} of ${turns}: a world in a page`);
      for (const group of groups) {
        rates[group].push(await play(group, turnMs));
      }
    }
    return rates;
  } finally {
    await Promise.all([client.close(), relayed.close(), direct.close()]);
  }
}

/** Plays a canvas in a page from the official Python client. */
export async function measureCanvas(
  options: Options,
  onProgress: (text: string) => void,
): Promise<Canvas> {
  const [slices, sliceMs] = options.quick ? [4, 1_000] : [12, 5_000];
  await using relay = await relayOf();
  const client = startPython(options, "canvas-client");
  try {
    await using opened = await openProgram(canvasPage);
    const group = "canvas";
    const port = await portOf(opened, relay);
    const connect = { group, peer: group, load: group, port, connections: 1, inFlight: 1 };
    await client.ask("connect", connect);
    await client.ask("play", { group, inFlight: 1, durationMs: 1_000 });
    const rates: number[] = [];
    const p99: number[] = [];
    let steps = 0;
    let elapsedMs = 0;
    for (let slice = 1; slice <= slices; slice++) {
      onProgress(`slice ${slice} of ${slices}: a canvas in a page`);
      const played = await client.ask("play", { group, inFlight: 1, durationMs: sliceMs });
      rates.push((played.steps * 1_000) / played.elapsedMs);
      p99.push((played.p99Micros ?? Number.NaN) / 1_000);
      steps += played.steps;
      elapsedMs += played.elapsedMs;
    }
    return {
      ticksPerSecond: (steps * 1_000) / elapsedMs,
      slowest: Math.min(...rates),
      p99Ms: quantile(p99, 1),
      seconds: elapsedMs / 1_000,
    };
  } finally {
    await client.close();
  }
}

async function openProgram(contents: string): Promise<OpenedScript> {
  const { script } = await bundle(contents, import.meta.dirname);
  return await openScript(chromium(), script, "dial");
}

function relayOf(): Promise<Relay> {
  return serveRelay({
    programs: [
      { name: "node", token: programToken },
      { name: "page", token: pageToken },
    ],
    allowedOrigins: ["*"],
  });
}

/** Address that programs dial. */
const addressOf = (relay: Relay): string => relay.url.replace("http", "ws");

/** Dials a relay from a page, and returns the port of its agents. */
async function portOf({ page }: OpenedScript, relay: Relay): Promise<number> {
  const address = await page.evaluate(
    (to, token) => globalThis.dial(to, token),
    addressOf(relay),
    pageToken,
  );
  return Number(new URL(address).port);
}

declare global {
  var dial: (relay: string, token: string) => Promise<string>;
}
