// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";
import { Program } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { dialed, startProgram } from "../../../packages/relay/testing/relaying.ts";
import {
  healthOfNothing,
  seventeenthReflection,
} from "../../../packages/server/testing/open-services.ts";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const token = "0123456789abcdef";

/** Writes a file of programs for one test. */
async function programsFile(text: string): Promise<AsyncDisposable & { readonly path: string }> {
  const folder = await mkdtemp(join(tmpdir(), "relay-server-"));
  const path = join(folder, "programs");
  await writeFile(path, text);
  return { path, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  return new Program(process.execPath, [main, ...args], { env: { ...process.env, ...env } });
}

describe("relay-server", () => {
  it("relays agents to a program, serves metrics and health, and exits cleanly on SIGTERM", async () => {
    await using file = await programsFile(`# a comment\n\ngame ${token} 2\n`);
    await using app = start(["--programs", file.path, "--port", "0", "--metrics-port", "0"]);
    const url = await app.says(/^listening on (http:\/\/\S+)\n/);
    const metricsUrl = await app.says(/^metrics at (\S+)\n/m);
    await using program = await startProgram(url.replace("http", "ws"), token);
    const connection = await connect(program.url);
    const environment = await connection.join("counting-1");
    await environment.reset();
    const { status } = await createClient(Health, createGrpcTransport({ baseUrl: url })).check({});
    expect(status).toBe(HealthCheckResponse_ServingStatus.SERVING);
    const metrics = await (await fetch(metricsUrl)).text();
    expect(metrics).toContain('dm_env_rpc_relay_programs{connected="true"} 1');
    expect(metrics).toContain('dm_env_rpc_relay_streams{program="game/1"} 1');
    await environment.close();
    await connection.close();
    expect(await app.stop()).toBe(0);
    expect(app.stderr).toContain("program-joined");
    expect(app.stderr).not.toContain(token);
  });

  it("answers health checks as bytes, and sixteen calls of reflection at a time from one address", async () => {
    await using file = await programsFile(`game ${token}\n`);
    await using app = start(["--programs", file.path, "--port", "0"]);
    const baseUrl = await app.says(/^listening on (http:\/\/\S+)\n/);
    expect(await healthOfNothing(baseUrl)).toMatch(/^request malformed: expected one message/);
    await expect(seventeenthReflection(baseUrl)).rejects.toThrow(
      /\[resource_exhausted\] too many calls of/,
    );
  });

  it("logs five refused programs, and counts the others", async () => {
    await using file = await programsFile(`game ${token}\n`);
    await using app = start(["--programs", file.path, "--port", "0"]);
    const url = (await app.says(/^listening on (http:\/\/\S+)\n/)).replace("http", "ws");
    const dials = Array.from({ length: 12 }, () => dialed(url, "a wrong token, long enough"));
    expect((await Promise.allSettled(dials)).map(({ status }) => status)).not.toContain(
      "fulfilled",
    );
    expect(await app.stop()).toBe(0);
    const lines = app.stderr.split("\n").filter((line) => line.includes("program-refused"));
    expect(lines).toHaveLength(6);
    expect(lines.at(-1)).toContain('"lines":7');
  });

  it.each([
    [["--port", "x"], "--port: expected an integer from 0 to 65535"],
    [["--max-programs", "-"], "--max-programs: expected a number"],
    [["--program-ports", "9000"], "--program-ports: expected two ports"],
    [["--host", "0.0.0.0"], "--host 0.0.0.0 is not a loopback address"],
    [["--tls-cert", "x"], "--tls-cert and --tls-key: expected both, received only --tls-cert"],
    [["--log-level", "loud"], "--log-level: expected one of"],
    [[], "--programs: expected a file"],
  ])("names the mistake in %j in one line", async (args, message) => {
    await using app = start(args);
    const { status, stderr } = await app.outcome();
    expect(status).toBe(1);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(message);
  });

  it("reads flags from the environment, and names a malformed line of its programs", async () => {
    await using file = await programsFile("game\n");
    await using app = start([], { RELAY_PROGRAMS: file.path });
    const { stderr } = await app.outcome();
    expect(stderr).toContain("line 1: expected a name, a token and perhaps a number of programs");
  });
});
