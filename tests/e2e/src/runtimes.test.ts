// SPDX-License-Identifier: Apache-2.0
import { createRequire } from "node:module";
import { join } from "node:path";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import { lockstep, serve } from "@dm-env-rpc/server";
import { run } from "@dm-env-rpc/tests-processes";
import { describe, expect, test } from "vitest";

const agent = join(import.meta.dirname, "runtime-agent.ts");
const deno = join(import.meta.dirname, "../node_modules/.bin/deno");

/** Bun's program, where a package manager that runs no scripts on install leaves it. */
function bun(): string {
  const { platform, arch } = process;
  const main = createRequire(import.meta.url).resolve("bun/package.json");
  const machine = `${platform}-${arch === "arm64" ? "aarch64" : arch}`;
  return createRequire(main).resolve(`@oven/bun-${machine}/bin/bun`);
}

describe.each([
  ["Bun", bun(), ["run"]],
  ["Deno", deno, ["run", "--allow-net", "--allow-env", "--allow-read"]],
  ["Node", process.execPath, []],
] as const)("the client in %s", (_name, program, args) => {
  test.each(["http", "ws"])("plays a sequence over %s", async (scheme) => {
    await using server = await serve({ worlds: [gridworld(lockstep())] });
    const address = server.url.replace("http", scheme);
    expect(await run(program, [...args, agent, address])).toBe("20 steps\n");
  });
});
