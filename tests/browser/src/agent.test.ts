// SPDX-License-Identifier: Apache-2.0
import { type AgentId, defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import {
  type Bundle,
  bundle,
  installedBrowsers,
  missingBrowsers,
  openScript,
} from "@dm-env-rpc/tests-processes/browser";
import { beforeAll, describe, expect, test } from "vitest";
import { bundleWithVite } from "./vite.ts";

/** Size limit of the client in a page, minified and compressed, in bytes. */
const maxGzipBytes = 60 * 1024;

const race = defineWorld({
  name: "race",
  settings: { length: t.int32({ min: 1, max: 1_000 }) },
  actions: { stride: t.int8({ min: 0, max: 3 }) },
  observations: { position: t.int32(), track: t.float32([84, 84]), reward: t.float32() },
  clock: lockstep(),
  create({ settings }) {
    const positions = new Map<AgentId, number>();
    const position = (agent: AgentId) => positions.get(agent) ?? 0;
    return {
      start: () => positions.clear(),
      step(actions) {
        for (const [agent, { stride = 0 }] of actions) {
          positions.set(agent, position(agent) + stride);
        }
      },
      status: (agent) => (position(agent) >= settings.length ? "terminated" : "running"),
      observe: {
        position,
        track: (agent) =>
          tensor("float32", [84, 84], new Float32Array(84 * 84).fill(position(agent))),
        reward: (agent) => (position(agent) >= settings.length ? 1 : 0),
      },
    };
  },
});

const agent = `
  import { connect } from "@dm-env-rpc/client";
  globalThis.play = async (url, length) => {
    const connection = await connect(url);
    try {
      const world = await connection.createWorld({ settings: { length } });
      const environment = await connection.join(world);
      let step = await environment.reset();
      let steps = 0;
      while (!step.last()) {
        step = await environment.step({ stride: 2 });
        steps += 1;
      }
      const { position, track } = step.observation;
      await environment.close();
      return { steps, position, track: [...new Set(track.data)], reward: step.reward };
    } finally {
      await connection.close();
    }
  };
  globalThis.refusal = (url) => connect(url).then((connection) => connection.createWorld()).then(
    () => "accepted",
    (error) => String(error),
  );
`;

const vectors = `
  import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
  globalThis.playTwo = async (url, length) => {
    const createSettings = () => ({ length });
    const environment = await vectorize(2, remoteSlots(url, { createSettings }));
    try {
      let { observation } = await environment.reset();
      for (let step = 0; step < 3; step++) {
        ({ observation } = await environment.step([{ stride: 1 }, { stride: 2 }]));
      }
      return [...observation.position.data];
    } finally {
      await environment.close();
    }
  };
`;

declare global {
  var playTwo: (url: string, length: number) => Promise<unknown>;
  var play: (url: string, length: number) => Promise<unknown>;
  var refusal: (url: string) => Promise<string>;
}

let built: Bundle;

beforeAll(async () => {
  built = await bundle(agent, import.meta.dirname);
});

test("Vite bundles the client without a plugin", async () => {
  const { code, warnings } = await bundleWithVite(agent);
  expect(warnings).toEqual([]);
  expect(code).toContain("globalThis.play");
  expect(code).not.toMatch(/from ?"node:|__vite-browser-external/);
});

test("the client in a page stays small, and esbuild bundles it without a plugin", () => {
  process.stdout.write(
    `the client in a page: ${(built.gzipBytes / 1024).toFixed(1)} KiB gzip, at most ${maxGzipBytes / 1024}\n`,
  );
  expect(built.gzipBytes).toBeLessThanOrEqual(maxGzipBytes);
});

for (const name of missingBrowsers) {
  test(`an agent in ${name}`, ({ skip }) => skip(`no ${name} on this machine; CI installs it`));
}

describe.each(installedBrowsers)("an agent in $name", (browser) => {
  test("plays a world over WebSocket", async () => {
    await using opened = await openScript(browser, built.script, "refusal");
    const { page, origin } = opened;
    await using server = await serve({ worlds: [race], allowedOrigins: [origin] });
    const url = server.url.replace("http", "ws");
    const result = await page.evaluate((to) => globalThis.play(to, 201), url);
    expect(result).toEqual({ steps: 101, position: 202, track: [202], reward: 1 });
  });

  test("plays several environments as one", async () => {
    const { script } = await bundle(vectors, import.meta.dirname);
    await using opened = await openScript(browser, script, "playTwo");
    const { page, origin } = opened;
    await using server = await serve({ worlds: [race], allowedOrigins: [origin] });
    const url = server.url.replace("http", "ws");
    expect(await page.evaluate((to) => globalThis.playTwo(to, 100), url)).toEqual([3, 6]);
  });

  test("is refused on a server that does not allow its origin", async () => {
    await using opened = await openScript(browser, built.script, "refusal");
    const { page, origin } = opened;
    await using server = await serve({ worlds: [race] });
    const url = server.url.replace("http", "ws");
    const refused = await page.evaluate((to) => globalThis.refusal(to), url);
    expect(refused).toContain(
      `page refused: expected an origin in the server's allowedOrigins, received ${origin}; add it there`,
    );
  });
});
