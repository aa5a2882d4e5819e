// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL(".", import.meta.url);
const sources = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
  (path) => path.endsWith(".ts") && !/\.test(-d)?\.ts$/.test(path),
);

test.each(sources)("%s imports nothing that a browser lacks", (path) => {
  const source = readFileSync(new URL(path, root), "utf8");
  const imported = [...source.matchAll(/\bfrom "([^"]+)"/g)].map(([, specifier]) => specifier);
  for (const specifier of imported) {
    expect(specifier).toMatch(/^(\.\.?\/|@bufbuild\/protobuf|@dm-env-rpc\/protocol)/);
  }
  const code = source.replace(/\/\*.*?\*\/|\/\/[^\n]*/gs, "");
  expect(code.match(/\b(import|require)\(|\b(process|Buffer|globalThis)\./)).toBeNull();
});

test.each(sources)("%s has a licence header", (path) => {
  const lines = readFileSync(new URL(path, root), "utf8").split("\n");
  expect(lines[0]).toBe("// SPDX-License-Identifier: Apache-2.0");
});
