// SPDX-License-Identifier: Apache-2.0
import { execFileSync, execSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "./pages.ts";

const timeoutMs = 300_000;

it("npm run pack prints a line that installs the packages in an empty project and one that creates a project", {
  timeout: timeoutMs,
}, () => {
  const scratch = mkdtempSync(join(tmpdir(), "packed of a clone "));
  try {
    const program = join(root, "tests/release/dist/pack.js");
    const printed = execFileSync(process.execPath, [program, join(scratch, "packs")], {
      encoding: "utf8",
      timeout: timeoutMs,
    });
    const [install, create] = printed.split("\n").filter((line) => line.startsWith("  "));
    const project = join(scratch, "project");
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), '{ "type": "module" }');
    run(install, project);
    writeFileSync(
      join(project, "main.js"),
      `import { serve } from "@dm-env-rpc/server";
         import { connect } from "@dm-env-rpc/client";
         const server = await serve({ worlds: [] });
         const connection = await connect("127.0.0.1:" + server.port);
         await connection.close();
         await server.close();
         console.log("connected");`,
    );
    expect(run("node main.js", project)).toBe("connected\n");
    const [make, enter, installThere] = create?.split(" && ") ?? [];
    run(make, scratch);
    expect(enter).toBe("cd my-world");
    run(installThere, join(scratch, "my-world"));
    const created = readFileSync(join(scratch, "my-world/package.json"), "utf8");
    expect(JSON.parse(created).dependencies["@dm-env-rpc/server"]).toMatch(/^file:.*packs/);
  } finally {
    rmSync(scratch, { recursive: true });
  }
});

/** Time after which an npm is taken to hang: npm 11 sometimes waits forever without a socket or a timer. */
const hungMs = 90_000;

/** Runs a command, and once more if it hangs. */
function run(command: string | undefined, cwd: string): string {
  expect(command).toBeTypeOf("string");
  const options = {
    cwd,
    encoding: "utf8",
    timeout: hungMs,
    killSignal: "SIGKILL",
    env: { ...process.env, npm_config_fund: "false", npm_config_audit: "false" },
  } as const;
  // The shell becomes the command, so that a timeout kills it.
  const line = `exec ${command}`;
  try {
    return execSync(line, options);
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "ETIMEDOUT") {
      throw error;
    }
    process.stderr.write(`run again, because it hung: ${command}\n`);
    return execSync(line, options);
  }
}
