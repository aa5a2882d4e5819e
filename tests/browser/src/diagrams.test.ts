// SPDX-License-Identifier: Apache-2.0
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { installedBrowsers, openPage } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";

/** The part of Mermaid's API that the test calls in the page. */
interface Mermaid {
  initialize(options: { readonly startOnLoad: boolean }): void;
  render(id: string, source: string): Promise<{ readonly svg: string }>;
}

const root = fileURLToPath(new URL("../../../", import.meta.url));
const mermaid = fileURLToPath(import.meta.resolve("mermaid/dist/mermaid.min.js"));
const chromium = installedBrowsers.filter(({ name }) => name === "chrome");

/** The diagrams of all pages, by page and line. */
const diagrams = globSync(["*.md", "docs/*.md", "packages/*/*.md", "deploy/**/*.md"], {
  cwd: root,
  exclude: (path) => path.includes("node_modules"),
}).flatMap((path) => {
  const text = readFileSync(root + path, "utf8");
  return [...text.matchAll(/^```mermaid\n(.*?)^```$/gms)].map(({ index, 1: source = "" }) => ({
    place: `${path}:${text.slice(0, index).split("\n").length}`,
    source,
  }));
});

test("there are diagrams", () => {
  expect(diagrams.length).toBeGreaterThan(4);
});

describe.each(chromium)("in $name", (browser) => {
  test("every diagram of the documentation is drawn", async () => {
    await using opened = await openPage(browser, "about:blank");
    const { page } = opened;
    await page.addScriptTag({ path: mermaid });
    for (const [index, { place, source }] of diagrams.entries()) {
      const drawn = await page.evaluate(
        async (id, text) => {
          const { mermaid } = globalThis as unknown as { readonly mermaid: Mermaid };
          mermaid.initialize({ startOnLoad: false });
          const { svg } = await mermaid.render(id, text).catch((error) => ({ svg: String(error) }));
          return svg;
        },
        `diagram-${index}`,
        source,
      );
      expect(drawn, place).toMatch(/^<svg .*<\/svg>$/s);
    }
    expect(opened.errors).toEqual([]);
  });
});
