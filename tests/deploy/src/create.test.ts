// SPDX-License-Identifier: Apache-2.0

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { Program, run } from "@dm-env-rpc/tests-processes";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type MadeProject, makeProject } from "./made-project.ts";
import { root } from "./paths.ts";

let project: MadeProject;
beforeAll(async () => {
  project = await makeProject();
}, 600_000);
afterAll(() => project[Symbol.asyncDispose]());

function npm(...args: string[]): Promise<string> {
  return run("npm", args, { cwd: project.folder });
}

function start(): Program {
  const env = { ...process.env, PORT: "0" };
  return new Program(process.execPath, ["src/main.ts"], { cwd: project.folder, env });
}

describe("a project made with npm create @dm-env-rpc", () => {
  it("type-checks, and its test passes", { timeout: 300_000 }, async () => {
    await npm("run", "typecheck");
    expect(await npm("test")).toMatch(/Tests.*4 passed/);
  });

  it("serves its world to our client, tells its health, and ends in good order", async () => {
    await using server = start();
    const address = await server.says(/^listening on http:\/\/(\S+)$/m);
    const port = address.split(":").at(-1);
    const health = { cwd: project.folder, env: { ...process.env, PORT: port } };
    await run(process.execPath, ["src/health.ts"], health);

    const connection = await connect(address);
    const world = await connection.createWorld({ settings: { size: 4, seed: 7n } });
    const environment = await connection.join(world, {});
    const first = await environment.reset();
    expect(Object.keys(first.observation).sort()).toEqual(["coin", "coins", "position"]);
    const next = await environment.step({ move: 1 });
    expect(next.state).toBe("running");

    const ended = server.stop();
    // The signal may come after a step or two.
    await expect.poll(async () => (await environment.step({ move: 1 })).state).toBe("interrupted");
    await connection.close();
    expect(await ended).toBe(0);
    expect(server.stderr).toBe("");
    await expect(run(process.execPath, ["src/health.ts"], health)).rejects.toThrow(/ended with 1/);
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
