// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Hung, root, run } from "./run.ts";

const program = `
import { serve } from "@dm-env-rpc/server";
import { connect } from "@dm-env-rpc/client";
const server = await serve({ worlds: [] });
const connection = await connect("127.0.0.1:" + server.port);
await connection.close();
await server.close();
console.log("connected");
`;

/** npm 11 sometimes waits forever without a socket or a timer; far below this time it is done. */
const hungMs = 120_000;

/**
 * Follows the lines that `npm run pack` prints: installs the packages in an empty project, whose
 * program then connects to its own server, and creates a project.
 *
 * @param scratch An empty folder, whose path may contain spaces.
 */
export async function followPrintedLines(scratch: string): Promise<void> {
  const packs = join(scratch, "packs");
  const printed = await run(process.execPath, [join(root, "tests/release/dist/pack.js"), packs], {
    cwd: root,
  });
  const [install = "", create = ""] = printed.split("\n").filter((line) => line.startsWith("  "));
  const project = join(scratch, "project");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "type": "module" }');
  writeFileSync(join(project, "main.js"), program);
  await npmInstall(install, project, scratch);
  const connected = await run(process.execPath, ["main.js"], { cwd: project });
  expectEqual("the program's output", connected, "connected\n");

  const [make = "", enter, installThere = ""] = create.split(" && ");
  await runLine(make, { cwd: scratch });
  expectEqual("the line's second command", enter, "cd my-world");
  const created = join(scratch, "my-world");
  await npmInstall(installThere, created, scratch);
  const { dependencies } = JSON.parse(readFileSync(join(created, "package.json"), "utf8"));
  const server: unknown = dependencies["@dm-env-rpc/server"];
  if (typeof server !== "string" || !/^file:.*packs/.test(server)) {
    throw new Error(`my-world depends on @dm-env-rpc/server at ${server}, not in ${packs}`);
  }
}

/** Runs an `npm install` with a cache of its own, at most three times if it hangs. */
async function npmInstall(line: string, cwd: string, scratch: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const cache = join(scratch, `cache of ${attempt}`);
    const env = { npm_config_cache: cache, npm_config_fund: "false", npm_config_audit: "false" };
    try {
      await runLine(line, { cwd, env, timeoutMs: hungMs });
      return;
    } catch (error) {
      if (!(error instanceof Hung) || attempt === 3) {
        throw error;
      }
      process.stdout.write(
        `      npm hung, and runs again; what it logged last:\n${lastLog(cache)}`,
      );
    }
  }
}

/** Runs a line of a shell, which becomes its last program: so a timeout kills that. */
function runLine(line: string, options: Parameters<typeof run>[2]): Promise<string> {
  return run("sh", ["-c", `exec ${line.trim()}`], options);
}

/** Returns the last lines of npm's newest log. */
function lastLog(cache: string): string {
  const logs = join(cache, "_logs");
  const newest = readdirSync(logs).sort().at(-1);
  return newest === undefined
    ? ""
    : `${readFileSync(join(logs, newest), "utf8").trimEnd().split("\n").slice(-20).join("\n")}\n`;
}

function expectEqual(subject: string, received: unknown, expected: string): void {
  if (received !== expected) {
    throw new Error(
      `${subject}: expected ${JSON.stringify(expected)}, received ${JSON.stringify(received)}`,
    );
  }
}
