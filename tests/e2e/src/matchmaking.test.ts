// SPDX-License-Identifier: Apache-2.0

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import type { Program } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { makeCertificates, opensslMissing } from "../../../packages/server/testing/certificates.ts";
import { startApp } from "./programs.ts";

const noOpenssl = opensslMissing();
if (noOpenssl !== undefined) {
  process.stderr.write(`skipped, mTLS: ${noOpenssl}\n`);
}

const profiles = JSON.stringify([
  {
    name: "pairs",
    pools: [{ name: "all" }],
    matchFunction: { byCount: { count: 2 } },
    worldType: "gridworld",
    worldSettings: { max_steps: { int32s: { array: [5] } } },
  },
]);

/** Writes files for one test. */
async function filesIn(files: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), "matchmaking-"));
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), text);
  }
  return {
    at: (name: string) => join(folder, name),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

async function started(app: string, args: readonly string[]): Promise<[Program, string]> {
  const program = startApp(app, ["--port", "0", ...args]);
  return [program, await program.says(/^listening on (\S+)$/m)];
}

describe("a matchmaker, a gridworld server and random agents", () => {
  it("play, and all report the same matches", async () => {
    await using files = await filesIn({ profiles });
    const [matchmaker, url] = await started("matchmaker-server", [
      "--profiles",
      files.at("profiles"),
    ]);
    await using _matchmaker = matchmaker;
    const address = url.replace("http://", "");
    const [gridworld, gridworldUrl] = await started("gridworld-server", ["--matchmaker", address]);
    await using _gridworld = gridworld;
    await gridworld.says(/^registered with /m);
    const args = ["--matchmaker", address, "--agents", "4", "--steps", "30", "--json"];
    await using agents = startApp("random-agent", args);
    expect(await agents.ended).toBe(0);
    const { worlds, steps } = JSON.parse(agents.stdout);
    expect(steps).toBe(120);
    expect(worlds).toHaveLength(2);
    for (const world of worlds) {
      expect(world.address).toBe(gridworldUrl);
    }
    // An agent without a token cannot join.
    await using stranger = await connect(gridworldUrl);
    await expect(stranger.createWorld()).rejects.toThrow(/operator/);
    gridworld.process.kill("SIGTERM");
    expect(await gridworld.ended).toBe(0);
    matchmaker.process.kill("SIGTERM");
    expect(await matchmaker.ended).toBe(0);
  });

  it.skipIf(noOpenssl !== undefined)(
    "present their certificates to each other if requested",
    async () => {
      const { authority: ca, server, agent } = makeCertificates();
      await using files = await filesIn({ profiles, ca, cert: server.cert, key: server.key });
      const tls = ["--tls-cert", files.at("cert"), "--tls-key", files.at("key")];
      const [matchmaker, url] = await started("matchmaker-server", [
        ...tls,
        ...["--ca", files.at("ca"), "--operator-ca", files.at("ca")],
        ...["--profiles", files.at("profiles")],
      ]);
      await using _matchmaker = matchmaker;
      const [gridworld] = await started("gridworld-server", [
        ...tls,
        ...["--tls-ca", files.at("ca")],
        ...["--matchmaker", url, "--matchmaker-ca", files.at("ca")],
      ]);
      await using _gridworld = gridworld;
      await gridworld.says(/^registered with /m);
      const shown = { ca, cert: agent.cert, key: agent.key };
      const client = matchmakerClient(url, { tls: { ca } });
      const play = async (): Promise<boolean> => {
        const match = await client.findMatch();
        await using env = await joinMatch(match, { connect: { tls: shown } });
        let step = await env.reset();
        while (!step.last()) {
          step = await env.step({ move: 1 });
        }
        return step.last();
      };
      expect(await Promise.all([play(), play()])).toEqual([true, true]);
    },
  );
});
