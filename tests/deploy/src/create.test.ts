// SPDX-License-Identifier: Apache-2.0

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { Program, run } from "@dm-env-rpc/tests-processes";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type MadeProject, makeProject } from "./made-project.ts";
import { deploy, root } from "./paths.ts";

let project: MadeProject;
beforeAll(async () => {
  project = await makeProject();
}, 600_000);
afterAll(() => project[Symbol.asyncDispose]());

function npm(...args: string[]): Promise<string> {
  return run("npm", args, { cwd: project.folder });
}

function start(...flags: readonly string[]): Program {
  return new Program(process.execPath, ["src/main.ts", "--port", "0", ...flags], {
    cwd: project.folder,
  });
}

describe("a project made with npm create @dm-env-rpc", () => {
  it("type-checks, and its test passes", { timeout: 300_000 }, async () => {
    await npm("run", "typecheck");
    expect(await npm("test")).toMatch(/Tests.*5 passed/);
  });

  it("serves its world to our client, reports its health, and exits cleanly", async () => {
    await using server = start();
    const address = await server.says(/^listening on http:\/\/(\S+)$/m);
    const health = ["src/health.ts", `http://${address}`];
    await run(process.execPath, health, { cwd: project.folder });

    const connection = await connect(address);
    const world = await connection.createWorld({ settings: { size: 4, seed: 7n } });
    const environment = await connection.join(world, {});
    const first = await environment.reset();
    expect(Object.keys(first.observation).sort()).toEqual(["coin", "coins", "position"]);
    const next = await environment.step({ move: 1 });
    expect(next.state).toBe("running");

    const ended = server.stop();
    // The signal may arrive after a step or two.
    await expect.poll(async () => (await environment.step({ move: 1 })).state).toBe("interrupted");
    await connection.close();
    expect(await ended).toBe(0);
    expect(server.stderr).toBe("");
    await expect(run(process.execPath, health, { cwd: project.folder })).rejects.toThrow(
      /ended with 1/,
    );
  });

  it("has every flag that deploy/ gives gridworld-server", async () => {
    const readme = await readFile(join(project.folder, "README.md"), "utf8");
    const manifests = ["compose/compose.yaml", "kubernetes/base/gridworld-server.yaml"];
    const texts = await Promise.all(manifests.map((file) => readFile(join(deploy, file), "utf8")));
    const [compose = "", kubernetes = ""] = texts;
    const given = [
      ...compose
        .slice(compose.indexOf("  gridworld-1:"), compose.indexOf("\n  relay:"))
        .split("\n"),
      ...kubernetes.split("\n"),
    ].flatMap((line) => /^ +- (--[a-z-]+)/.exec(line)?.[1] ?? []);
    expect(given).toContain("--matchmaker-token");
    expect(given.filter((flag) => !readme.includes(`| \`${flag}\` |`))).toEqual([]);
  });

  it("replaces gridworld-server at a matchmaker", { timeout: 300_000 }, async () => {
    const profiles = join(project.folder, "profiles.json");
    const pools = [{ name: "everyone" }];
    const matchFunction = { by_count: { count: 2 } };
    await writeFile(
      profiles,
      JSON.stringify([
        { name: "pairs", pools, match_function: matchFunction, world_type: "coins" },
      ]),
    );
    const main = join(root, "apps/matchmaker-server/dist/main.js");
    await using matchmaker = new Program(process.execPath, [
      ...[main, "--port=0", `--profiles=${profiles}`],
    ]);
    const url = await matchmaker.says(/^listening on (\S+)$/m);
    await using server = start(
      ...["--grace-ms=5000", "--max-worlds=200", "--max-agents=1000", `--matchmaker=${url}`],
    );
    await server.says(/^registered with (\S+)$/m);

    const play = async () => {
      const client = matchmakerClient(url);
      const match = await client.findMatch({});
      await using environment = await joinMatch(match, {});
      const { observation } = await environment.reset();
      await environment.step({ move: 1 });
      return { world: match.worldName, coin: observation["coin"] };
    };
    const [one, other] = await Promise.all([play(), play()]);
    expect(one).toEqual(other);
    const direct = await connect(await server.says(/^listening on http:\/\/(\S+)$/m));
    await expect(direct.createWorld()).rejects.toThrow(/operator|role|permission/i);
    await direct.close();
    expect(await server.stop()).toBe(0);
  });

  it("plays with the Python agent of its README", { timeout: 600_000 }, async () => {
    const readme = await readFile(join(project.folder, "README.md"), "utf8");
    const [, agent = ""] = /```python\n(.*?)```/s.exec(readme) ?? [];
    await using server = start();
    const address = await server.says(/^listening on http:\/\/(\S+)$/m);
    const file = join(project.folder, "agent.py");
    await writeFile(file, agent.replace("127.0.0.1:8980", address));
    const printed = await run("node", ["scripts/python.mjs", file], { cwd: root });
    expect(printed).toMatch(/^coins: \d+$/m);
  });
});
