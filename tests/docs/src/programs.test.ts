// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { opensslMissing } from "../../../packages/server/testing/certificates.ts";
import { allPages, at, root } from "./pages.ts";
import { type Complaint, compile, type Program, programsOf } from "./programs.ts";

const pages = allPages();
const programs = pages.flatMap(programsOf);
/** Blocks that create certificates for the programs of their pages. */
const certificates = pages
  .flatMap(({ blocks }) => blocks)
  .filter(({ lines }) => lines.every((line) => line.startsWith("openssl ")) && lines.length > 0)
  .map(({ lines }) => lines.join("\n"));
const noOpenssl = opensslMissing();
const cases = programs.map((program) => [at(program.page, program.line), program] as const);
let complaints: readonly Complaint[] = [];
beforeAll(() => {
  complaints = compile(programs);
});

it("finds programs", () => {
  expect(programs.length).toBeGreaterThan(10);
});

it.each([...new Set(programs.map(({ page }) => page.path))])(
  "the TypeScript of %s compiles",
  (path) => {
    const own = complaints.filter((complaint) => complaint.path === path);
    expect(own.map(({ line, message }) => `${path}:${line}: ${message}`)).toEqual([]);
  },
);

/** Returns the reason why a program is not run; undefined if it is run. */
function whyNotRun({ notRun, source }: Program): string | undefined {
  return notRun ?? (source.includes('.crt"') ? noOpenssl : undefined);
}

describe("programs", () => {
  let gridworld: ChildProcess;
  let address = "";
  /** Receives the spans of programs, as a collector of OTLP does. */
  const collector = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`);
    request.resume().once("end", () => response.end());
  });
  const received: string[] = [];
  let folder = "";
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "pages-"));
    for (const commands of noOpenssl === undefined ? certificates : []) {
      execFileSync("bash", ["-ec", commands], { cwd: folder, stdio: "ignore" });
    }
    collector.listen(0, "127.0.0.1");
    const server = run([`${root}apps/gridworld-server/dist/main.js`, "--port", "0"], folder);
    gridworld = server.child;
    address = (await server.listening) ?? "";
    if (address === "") {
      throw new Error(`gridworld-server: ${(await server.ended).output}`);
    }
  });
  afterAll(async () => {
    collector.close();
    gridworld.kill("SIGTERM");
    await once(gridworld, "close");
    rmSync(folder, { recursive: true });
  });

  for (const [place, program] of cases) {
    const why = whyNotRun(program);
    if (why !== undefined) {
      process.stderr.write(`type-checked only: ${place}: ${why}\n`);
    }
  }
  // Named files belong to a project that follow-guide.ts creates and runs.
  it.each(
    cases.filter(([, program]) => program.file === undefined && whyNotRun(program) === undefined),
  )("%s runs", async (_place, { compiled }: Program) => {
    const code = readFileSync(compiled, "utf8")
      .replaceAll(/(localhost|127\.0\.0\.1):8980/g, address)
      .replaceAll("localhost:4318", `127.0.0.1:${(collector.address() as AddressInfo).port}`)
      .replaceAll(/\bport: (8980|9090)\b/g, "port: 0");
    writeFileSync(compiled, code);
    const { child, listening, ended } = run([compiled], folder);
    // A server runs until it is stopped.
    if ((await listening) !== undefined) {
      child.kill("SIGTERM");
    }
    const { code: exitCode, output } = await ended;
    expect(exitCode, output).toBe(0);
    if (code.includes("/v1/traces")) {
      expect(received).toEqual(["POST /v1/traces"]);
    }
  });
});

/** Runs a Node program. `listening` resolves to the address that it prints; undefined if it ends without one. */
function run(args: readonly string[], cwd: string) {
  const child = spawn(process.execPath, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const listening = new Promise<string | undefined>((resolve) => {
    const note = (text: string): void => {
      output += text;
      const said = /listening on https?:\/\/(\S+)/.exec(output)?.[1];
      if (said !== undefined) {
        resolve(said);
      }
    };
    child.stdout.setEncoding("utf8").on("data", note);
    child.stderr.setEncoding("utf8").on("data", note);
    child.once("close", () => resolve(undefined));
  });
  const ended = once(child, "close").then(([code, signal]) => ({
    code: (code ?? signal) as number | string,
    output,
  }));
  return { child, listening, ended };
}
