// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const root = new URL("../../../", import.meta.url);

/** Which packages each imports (ARCHITECTURE.md). */
const imported: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  "tensor-codec": ["protocol"],
  transport: ["protocol", "tensor-codec"],
  client: ["protocol", "tensor-codec", "transport"],
  conformance: ["protocol", "tensor-codec", "transport"],
  server: ["protocol", "tensor-codec", "transport"],
  matchmaker: ["protocol", "tensor-codec", "transport", "client"],
  create: [],
};

function sources(folder: URL): URL[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => new URL(`file://${entry.parentPath}/${entry.name}`));
}

describe("imports", () => {
  const packages = readdirSync(new URL("packages/", root));

  it("have a rule for every package", () => {
    expect(packages.sort()).toEqual(Object.keys(imported).sort());
  });

  it.each(packages)("of %s point one way", (name) => {
    const folder = new URL(`packages/${name}/`, root);
    const manifest = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
    const wanted = imported[name]?.map((other) => `@dm-env-rpc/${other}`);
    const declared = Object.keys(manifest.dependencies).filter((other) =>
      other.startsWith("@dm-env-rpc/"),
    );
    expect(declared.sort()).toEqual(wanted?.sort());
    for (const file of sources(new URL("src/", folder))) {
      if (file.pathname.endsWith(".test.ts")) continue;
      for (const [, specifier = ""] of readFileSync(file, "utf8").matchAll(
        /from "(@dm-env-rpc\/[a-z-]+)/g,
      )) {
        expect(declared, file.pathname).toContain(specifier);
      }
    }
  });
});
