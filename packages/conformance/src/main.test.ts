// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "@dm-env-rpc/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { meadow } from "../testing/meadow.ts";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe("dm-env-rpc-conformance", () => {
  let server: Awaited<ReturnType<typeof serve>>;
  let folder: string;
  const file = (name: string): string => join(folder, name);
  const config = (content: unknown): string => {
    writeFileSync(file("config.json"), JSON.stringify(content));
    return file("config.json");
  };

  beforeAll(async () => {
    server = await serve({ worlds: [meadow()] });
    folder = mkdtempSync(join(tmpdir(), "conformance-"));
  });
  afterAll(async () => {
    await server.close();
    rmSync(folder, { recursive: true });
  });

  it("exits with 0 if every check passes, and writes its reports", async () => {
    const { code, stdout } = await run(
      ...["--address", server.url, "--filter", "27.", "--all"],
      ...["--config", config({ create: { length: { int32: 100000 } } })],
      ...["--json", file("report.json"), "--junit", file("report.xml")],
    );
    expect(stdout).toContain("pass  27.join-twice");
    expect(stdout).toMatch(
      /n\/a {3}not checked, because the config has no "fullWorld":\n +27\.full-world /,
    );
    expect(stdout).toMatch(/2 passed, 0 failed, 0 known to fail, 1 not applicable/);
    expect(code).toBe(0);
    const report = JSON.parse(readFileSync(file("report.json"), "utf8"));
    expect(report.counts.passed).toBe(2);
    expect(report.results[0].section).toBe('reference.md, "JoinWorldRequest/Response"');
    const xml = readFileSync(file("report.xml"), "utf8");
    expect(xml).toContain('tests="3" failures="0" errors="0" skipped="1"');
    expect(xml).toContain('classname="27.join-twice"');
  });

  it("exits with 1 if a check fails, and prints the expected and received values and the section", async () => {
    const { code, stdout } = await run(
      ...["--address", server.url, "--filter", "23.premade"],
      ...["--config", config({ premade: "nowhere", create: { length: 9 } })],
    );
    expect(stdout).toContain("FAIL  23.premade");
    expect(stdout).toContain("expected: a joinWorld response");
    expect(stdout).toMatch(/received: error 5: .*nowhere/);
    expect(stdout).toContain('specified in: reference.md, "CreateWorldRequest/Response"');
    expect(stdout).toMatch(/^reference\.md: https:.*dm_env_rpc/m);
    expect(code).toBe(1);
  });

  it("accepts a known failure, and fails if it passes", async () => {
    const known = { knownFailing: ["23.premade"], premade: "nowhere" };
    const args = ["--address", server.url, "--filter", "23.premade", "--config"];
    expect(await run(...args, config(known))).toMatchObject({ code: 0 });
    const world = await run(
      ...["--address", server.url, "--filter", "29.leave-not-joined"],
      ...["--config", config({ knownFailing: ["29.leave-not-joined"] })],
    );
    expect(world.code).toBe(1);
    expect(world.stdout).toContain('remove it from "knownFailing"');
  });

  it.each([
    ["without an address", [], /--address/],
    ["for a flag that it does not know", ["--adress", "x"], /adress/],
    [
      "without a server at the address",
      ["--address", "127.0.0.1:1"],
      /no server listens|127\.0\.0\.1:1/,
    ],
    ["for a file that is not there", ["--address", "x", "--config", "/nowhere.json"], /nowhere/],
    ["for a protocol that it does not speak", ["--address", "x", "--protocol", "smoke"], /smoke/],
  ])("exits with 2 %s", async (_what, args, message) => {
    const { code, stderr } = await run(...args);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  it.each([
    ["an unknown key", { agnts: 3 }, /agnts/],
    ["a value of the wrong type", { agents: "many" }, /config\.agents: expected an integer/],
    ["a min above max", { agents: { min: 3, max: 2 } }, /agents: expected "max"/],
    ["an unknown name", { clock: "sundial" }, /config\.clock: expected one of lockstep/],
    ["a check that does not exist", { knownFailing: ["99.nothing"] }, /99\.nothing/],
  ])("exits with 2 for a config with %s", async (_what, content, message) => {
    const { code, stderr } = await run("--address", server.url, "--config", config(content));
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  it("prints each finished check if standard error is not a terminal", async () => {
    const { stderr } = await run(
      ...["--address", server.url, "--filter", "27."],
      ...["--config", config({ create: { length: { int32: 100000 } } })],
    );
    expect(stderr.trim().split("\n")).toEqual([
      expect.stringMatching(/^1\/3 {2}pass {2}27\.join-twice \(\d+ ms\)$/),
      expect.stringMatching(/^2\/3 {2}pass {2}27\.unknown-world /),
      expect.stringMatching(/^3\/3 {2}n\/a {3}27\.full-world /),
    ]);
  });

  it("exits with 2 if worlds need more agents than the config allows for", async () => {
    const { code, stderr } = await run(
      ...["--address", server.url, "--filter", "27."],
      ...[
        "--config",
        config({ create: { length: 9, min_agents: 3 }, agents: 8, timeoutMs: 4_000 }),
      ],
    );
    expect(stderr).toMatch(/before [3-8] had; set "agents": \{"min":[3-8],"max":8\}/);
    expect(code).toBe(2);
  });

  it("lists every check with its section", async () => {
    const { stdout } = await run("--list");
    expect(stdout.split("\n").length).toBeGreaterThan(70);
    expect(stdout).toMatch(
      /^41\.tells-each-once .* \[reference\.md, "ResetWorldRequest\/Response"\]$/m,
    );
  });
});
