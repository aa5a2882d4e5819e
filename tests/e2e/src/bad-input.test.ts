// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@dm-env-rpc/client";
import { describe, expect, it } from "vitest";
import { attacks } from "./attacks.ts";
import { gridworldServer } from "./programs.ts";

const mebibyte = 1024 * 1024;

/** Returns the resident memory of a process. */
function residentBytes(pid: number): number {
  return Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) * 1024;
}

/** Starts two agents that play with each other. */
async function twoAgents(address: string) {
  const connections = [await connect(address), await connect(address)] as const;
  const world = await connections[0].createWorld({ settings: { max_steps: 1_000_000 } });
  const environments = await Promise.all(connections.map((connection) => connection.join(world)));
  let steps = 0;
  let playing = true;
  const play = async (): Promise<void> => {
    while (playing) {
      await Promise.all(environments.map((environment) => environment.step({ move: 0 })));
      steps += 1;
      // Yields to other work of this process, such as the attack.
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const played = play();
  const waitFor = async (count: number): Promise<void> => {
    const until = steps + count;
    while (steps < until) {
      await Promise.race([sleep(1), played]);
    }
  };
  /** Measures the steps per second during a promise, and for `count` further steps. */
  const paceOf = async <T>(happens: Promise<T>, count: number): Promise<[number, T]> => {
    const [startedAt, first] = [performance.now(), steps];
    const result = await happens;
    await waitFor(count);
    return [(steps - first) / ((performance.now() - startedAt) / 1000), result];
  };
  return {
    waitFor,
    paceOf,
    async [Symbol.asyncDispose]() {
      playing = false;
      await played;
      await Promise.all(connections.map((connection) => connection.close()));
    },
  };
}

interface Cost {
  /** MiB that the server may grow by, including uncollected garbage. */
  readonly growth: number;
  /** Allowed slowdown of the other agents; with a blocked event loop it is about 100. */
  readonly slowdown: number;
}

const usual: Cost = { growth: 80, slowdown: 12 };

/** Attacks with a higher allowance: buffered or incomplete messages, and 580 MB that this process sends. */
const costs: Readonly<Record<string, Cost>> = {
  "100 requests of 60 MiB, 60 KB of gzip each, behind a step that waits": { ...usual, growth: 192 },
  "10 streams that send 58 of 60 MiB and stall": { growth: 384, slowdown: 60 },
};

describe("a server that is sent", () => {
  it.each(Object.entries(attacks))(
    "%s: answers or closes, keeps its memory bounded, and lets other agents play",
    async (name, attack) => {
      await using server = await gridworldServer("--max-worlds", "20");
      const pid = server.process.pid ?? 0;
      await using others = await twoAgents(server.address);
      await others.waitFor(300);
      const { growth, slowdown } = costs[name] ?? usual;
      let slower = Number.POSITIVE_INFINITY;
      let grown = Number.POSITIVE_INFINITY;
      // A real slowdown or growth repeats in each attempt; a stall of the machine or a late collection does not.
      for (let attempt = 1; attempt <= 3 && (slower >= slowdown || grown >= growth); attempt++) {
        const [pace] = await others.paceOf(others.waitFor(500), 0);
        const before = residentBytes(pid);
        const [paceMeanwhile, left] = await others.paceOf(attack(server.address), 500);
        grown = (residentBytes(pid) - before) / mebibyte;
        slower = pace / paceMeanwhile;
        await left?.[Symbol.asyncDispose]();
      }
      expect(grown, "MiB that the server grew by").toBeLessThan(growth);
      expect(slower, "times that others were slower").toBeLessThan(slowdown);
      await others.waitFor(10);
      await using late = await connect(server.address);
      await expect(late.join("atlantis")).rejects.toThrow(/atlantis/);
      expect(server.process.exitCode).toBe(null);
    },
  );
});
