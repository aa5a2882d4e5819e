// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readPage, root } from "./pages.ts";

// tests/browser plays the example in real browsers.
it.each(["game.ts", "world.ts", "play.ts"])(
  "docs/canvas-game.md shows %s of the example as it is",
  (file) => {
    const shown = readPage("docs/canvas-game.md").blocks.find((block) => block.file === file);
    const [, ...lines] = readFileSync(`${root}examples/canvas-game/src/${file}`, "utf8")
      .trimEnd()
      .split("\n");
    expect(shown?.lines).toEqual(lines);
  },
);
