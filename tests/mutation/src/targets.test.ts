// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { defaultTargets, resolveTargets } from "./targets.ts";

const root = join(import.meta.dirname, "../../..");

describe("the targets of a mutation test", () => {
  it("are rooms, each with its files but not their tests", () => {
    const [server] = resolveTargets(root, ["server/clocks"]);
    expect(server?.files).toContain("packages/server/src/clocks/turns.ts");
    expect(server?.files.filter((file) => file.includes(".test"))).toEqual([]);
  });

  it("are existing rooms by default", () => {
    const names = resolveTargets(root, defaultTargets).map(({ name }) => name);
    expect(names).toEqual(["server", "client", "matchmaker"]);
  });

  it("are files, with or without a range of lines, once each", () => {
    const turns = "packages/server/src/clocks/turns.ts";
    expect(resolveTargets(root, [`${turns}:2-9`, turns, turns])).toEqual([
      { name: "server", files: [turns, `${turns}:2-9`] },
    ]);
  });

  it("are refused if they have no files", () => {
    expect(() => resolveTargets(root, ["server/rooms"])).toThrow(
      /server\/rooms has no files: expected a package/,
    );
  });
});
