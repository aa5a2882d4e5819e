// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { clockNames } from "@dm-env-rpc/conformance";
import { MatchFunctionSchema } from "@dm-env-rpc/protocol/matchmaker";
import { serve } from "@dm-env-rpc/server";
import { addServerMetrics } from "@dm-env-rpc/server/metrics";
import { dtypes } from "@dm-env-rpc/tensor-codec";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { readPage, root } from "./pages.ts";

/** The clocks that the server's package exports. */
const clocks = [
  ...readFileSync(`${root}packages/server/src/browser.ts`, "utf8").matchAll(
    /\b(\w+) \} from "\.\/clocks\//g,
  ),
].map(([, name]) => name);

it.each(["packages/server/README.md", "docs/clocks.md", "apps/gridworld-server/README.md"])(
  "%s has a row for every clock",
  (path) => {
    expect(clocks).toContain("lockstep");
    expect(inRows(path)).toEqual(expect.arrayContaining(clocks));
  },
);

it("docs/glossary.md names every clock", () => {
  const named = readPage("docs/glossary.md").spans.map(({ text }) => text);
  expect(named).toEqual(expect.arrayContaining(clocks));
});

it("the conformance suite knows every clock", () => {
  expect(new Set(clockNames)).toEqual(new Set(clocks));
});

it("the tests in Python play on every clock", () => {
  const conftest = readFileSync(`${root}python/tests/conftest.py`, "utf8");
  const [, worlds = ""] =
    /"apps\/gridworld-server\/src\/world.ts": \(([^)]*)\)/.exec(conftest) ?? [];
  const played = [...worlds.matchAll(/"([^"]+)"/g)].map(([, name]) =>
    name === "gridworld" ? "lockstep" : name,
  );
  expect(played).toEqual(expect.arrayContaining(clocks));
});

it("packages/tensor-codec/README.md has a row for every dtype", () => {
  const names = Object.keys(dtypes);
  expect(inRows("packages/tensor-codec/README.md")).toEqual(expect.arrayContaining(names));
});

it.each(["packages/matchmaker/README.md", "docs/run-a-fleet.md"])(
  "%s names every match function",
  (path) => {
    const names = MatchFunctionSchema.fields.map(({ name }) => name);
    // A custom function has the operator's name.
    const builtIn = names.filter((name) => name !== "custom");
    const told = readPage(path).spans.map(({ text }) => text);
    expect(told).toEqual(expect.arrayContaining(builtIn));
  },
);

it("docs/run-a-fleet.md has a row for every metric of a server", async () => {
  const registry = new Registry();
  await using server = await serve({ worlds: [] });
  addServerMetrics(server, registry);
  const names = registry
    .getMetricsAsArray()
    .map(({ name }) => name.replace("dm_env_rpc_server_", ""));
  expect(names.length).toBeGreaterThan(10);
  const told = readPage("docs/run-a-fleet.md").spans.map(({ text }) => text);
  expect(told).toEqual(expect.arrayContaining(names));
});

/** Returns the code in the first cell of each row of a page; of a call only its name. */
function inRows(path: string): readonly (string | undefined)[] {
  const cells = readPage(path).text.matchAll(/^\|([^|]*)\|/gm);
  return [...cells].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`(\w+)[^`]*`/g)].map(([, name]) => name),
  );
}
