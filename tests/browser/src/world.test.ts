// SPDX-License-Identifier: Apache-2.0

import {
  type Bundle,
  bundle,
  installedBrowsers,
  missingBrowsers,
  openScript,
} from "@dm-env-rpc/tests-processes/browser";
import { beforeAll, describe, expect, test } from "vitest";
import { bundleWithVite } from "./vite.ts";

/** Maximum bytes of a server in a page, minified and compressed. */
const maxGzipBytes = 80 * 1024;

/** A world, and an agent of it, in one page. */
const worldAndAgent = `
  import { connect } from "@dm-env-rpc/client";
  import { createEnvironmentServer, defineEnvironment, defineWorld, lockstep, realtime } from "@dm-env-rpc/server";
  import { t, tensor } from "@dm-env-rpc/tensor-codec";
  import { memoryStreamPair } from "@dm-env-rpc/transport";

  const race = defineWorld({
    name: "race",
    settings: { length: t.int32({ min: 1, max: 1_000_000 }) },
    actions: { stride: t.int8({ min: 0, max: 3 }) },
    observations: { position: t.int32(), track: t.uint8([84, 84, 3]), reward: t.float32() },
    clock: lockstep({ deadlineMs: 60_000, onMissedDeadline: "leave" }),
    create({ settings }) {
      const positions = new Map();
      const position = (agent) => positions.get(agent) ?? 0;
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
          track: (agent) => tensor("uint8", [84, 84, 3], new Uint8Array(84 * 84 * 3).fill(position(agent))),
          reward: (agent) => (position(agent) >= settings.length ? 1 : 0),
        },
      };
    },
  });
  const dice = defineEnvironment({
    name: "dice",
    actions: { guess: t.int8({ min: 1, max: 6 }) },
    observations: { rolled: t.int8() },
    create: ({ random }) => {
      const roll = () => ({ rolled: random.integer(1, 6) });
      return { reset: roll, step: () => ({ observation: roll() }) };
    },
  });
  const falling = defineWorld({
    name: "falling",
    actions: { push: t.float64() },
    observations: { ticks: t.int32() },
    clock: realtime({ ticksPerSecond: 50, answer: "newest" }),
    create() {
      let ticks = 0;
      return { start: () => void (ticks = 0), step: () => void (ticks += 1), observe: { ticks: () => ticks } };
    },
  });

  const events = [];
  const server = createEnvironmentServer({
    worlds: [race, dice, falling],
    onEvent: ({ kind }) => events.push(kind),
  });
  const dial = () => {
    const [stream, served] = memoryStreamPair();
    server.accept(served);
    return connect({ stream });
  };

  globalThis.race = async (length, stride) => {
    const owner = await dial();
    const world = await owner.createWorld({ settings: { world_type: "race", length } });
    const agents = await Promise.all([dial(), dial()].map(async (connection) => (await connection).join(world)));
    let steps = await Promise.all(agents.map((agent) => agent.reset()));
    const begun = performance.now();
    let ticks = 0;
    while (!steps[0].last()) {
      steps = await Promise.all(agents.map((agent) => agent.step({ stride })));
      ticks += 1;
    }
    const perSecond = (ticks * 1_000) / (performance.now() - begun);
    const [{ reward, observation: { position, track } }] = steps;
    return { ticks, reward, position, shade: track.data[100], perSecond };
  };
  globalThis.rollDice = async (seed) => {
    const connection = await dial();
    const world = await connection.createWorld({ settings: { world_type: "dice" } });
    const environment = await connection.join(world, { settings: { seed } });
    const rolled = [(await environment.reset()).observation.rolled];
    for (let i = 0; i < 10; i++) {
      rolled.push((await environment.step({ guess: 1 })).observation.rolled);
    }
    return rolled;
  };
  globalThis.fall = async (ticks) => {
    const connection = await dial();
    const environment = await connection.join(await connection.createWorld({ settings: { world_type: "falling" } }));
    let seen = 0;
    while (seen < ticks) {
      const { observation } = await environment.step({});
      seen = observation?.ticks ?? 0;
    }
    return seen;
  };
  globalThis.closeServer = async () => {
    await server.close();
    return { streams: server.sessionCount, worlds: server.worldNames(), events };
  };
`;

declare global {
  var race: (length: number, stride: number) => Promise<Record<string, number>>;
  var rollDice: (seed: number) => Promise<readonly number[]>;
  var fall: (ticks: number) => Promise<number>;
  var closeServer: () => Promise<unknown>;
}

let built: Bundle;

beforeAll(async () => {
  built = await bundle(worldAndAgent, import.meta.dirname);
});

test("Vite bundles a server without a plugin", async () => {
  const { code, warnings } = await bundleWithVite(worldAndAgent);
  expect(warnings).toEqual([]);
  expect(code).toContain("globalThis.race");
  expect(code).not.toMatch(/node:|__vite-browser-external/);
});

test("a server in a page stays small, and esbuild bundles it without a plugin", async () => {
  const { gzipBytes, script } = await bundle(
    'import { createEnvironmentServer, defineWorld } from "@dm-env-rpc/server"; Object.assign(globalThis, { createEnvironmentServer, defineWorld });',
    import.meta.dirname,
  );
  process.stdout.write(
    `a server in a page: ${(gzipBytes / 1024).toFixed(1)} KiB gzip, at most ${maxGzipBytes / 1024}\n`,
  );
  expect(gzipBytes).toBeLessThanOrEqual(maxGzipBytes);
  expect(script).not.toContain("node:");
});

for (const name of missingBrowsers) {
  test(`a world in ${name}`, ({ skip }) => skip(`no ${name} on this machine; CI installs it`));
}

describe.each(installedBrowsers)("a world in a page of $name", (browser) => {
  test("is played by agents of the same page, on every kind of clock", async () => {
    await using opened = await openScript(browser, built.script, "closeServer");
    const { page } = opened;
    const { perSecond, ...race } = await page.evaluate(() => globalThis.race(601, 2));
    process.stdout.write(
      `two agents in lock-step in ${browser.name}: ${perSecond?.toFixed(0)} ticks/s\n`,
    );
    expect(race).toEqual({ ticks: 301, reward: 1, position: 602, shade: 602 % 256 });
    const rolls = await page.evaluate(() => globalThis.rollDice(7));
    expect(await page.evaluate(() => globalThis.rollDice(7))).toEqual(rolls);
    expect(await page.evaluate(() => globalThis.rollDice(8))).not.toEqual(rolls);
    expect(await page.evaluate(() => globalThis.fall(10))).toBeGreaterThanOrEqual(10);
    expect(await page.evaluate(() => globalThis.closeServer())).toEqual({
      streams: 0,
      worlds: [],
      events: expect.arrayContaining(["world-created", "agent-joined", "server-closing"]),
    });
  });
});
