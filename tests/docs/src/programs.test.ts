// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allPages, at, root } from "./pages.ts";
import { type Complaint, compile, type Program, programsOf } from "./programs.ts";

const pages = allPages();
const programs = pages.flatMap(programsOf);
/** Blocks that make certificates, which programs of their pages read. */
const certificates = pages
  .flatMap(({ blocks }) => blocks)
  .filter(({ lines }) => lines.every((line) => line.startsWith("openssl ")) && lines.length > 0)
  .map(({ lines }) => lines.join("\n"));
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

describe("programs", () => {
  let gridworld: { readonly process: ChildProcess; readonly address: string };
  let folder = "";
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "pages-"));
    for (const commands of certificates) {
      execFileSync("bash", ["-ec", commands], { cwd: folder, stdio: "ignore" });
    }
    const main = `${root}apps/gridworld-server/dist/main.js`;
    const server = run([main, "--port", "0"], folder);
    gridworld = { process: server.process, address: await server.listening };
  });
  afterAll(async () => {
    gridworld.process.kill("SIGTERM");
    await once(gridworld.process, "close");
    rmSync(folder, { recursive: true });
  });

  const skipped = cases.filter(([, { notRun }]) => notRun !== undefined);
  for (const [place, { notRun }] of skipped) {
    process.stderr.write(`type-checked only: ${place}: ${notRun}\n`);
  }
  // Files that a page names belong to a project that follow-guide.mjs makes and runs.
  it.each(cases.filter(([, { file, notRun }]) => file === undefined && notRun === undefined))(
    "%s runs",
    async (_place, { compiled }: Program) => {
      const code = readFileSync(compiled, "utf8")
        .replaceAll(/(localhost|127\.0\.0\.1):8980/g, gridworld.address)
        .replaceAll(/\bport: 8980\b/g, "port: 0");
      writeFileSync(compiled, code);
      const { process: child, listening, ended } = run([compiled], folder);
      // A server goes on until it is told to stop.
      listening.then(() => child.kill("SIGTERM")).catch(() => {});
      const { code: exitCode, output } = await ended;
      expect(exitCode, output).toBe(0);
    },
  );
});

/** Runs a program of Node. `listening` is where it says that it does; it may end without having done so. */
function run(args: readonly string[], cwd: string) {
  const child = spawn(process.execPath, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const listening = new Promise<string>((resolve, reject) => {
    const note = (text: string): void => {
      output += text;
      const address = /listening on https?:\/\/(\S+)/.exec(output)?.[1];
      if (address !== undefined) resolve(address);
    };
    child.stdout.setEncoding("utf8").on("data", note);
    child.stderr.setEncoding("utf8").on("data", note);
    child.once("close", () => reject(new Error(`ended before it listened: ${output}`)));
  });
  listening.catch(() => {});
  const ended = once(child, "close").then(([code, signal]) => ({
    code: (code ?? signal) as number | string,
    output,
  }));
  return { process: child, listening, ended };
}
