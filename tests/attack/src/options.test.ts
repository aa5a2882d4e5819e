// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { rooms, variants } from "./attacks/index.ts";
import { parseOptions, usage } from "./options.ts";

describe("the options", () => {
  it("select all attacks by default, or those of a room, or those whose names contain the argument", () => {
    const count = Object.values(rooms).flatMap((room) => Object.keys(room)).length;
    expect(parseOptions([]).attacks).toHaveLength(count);
    expect(parseOptions(["frames"]).attacks.every(({ room }) => room === "frames")).toBe(true);
    expect(parseOptions(["RAPID", "rapid reset"]).attacks).toMatchObject([{ room: "frames" }]);
  });

  it("leave out variants in a quick run, unless they are named", () => {
    const [variant = ""] = variants;
    const isIn = (args: readonly string[]): boolean =>
      parseOptions(args).attacks.some(({ attack }) => attack === variant);
    expect([isIn([]), isIn(["--quick"]), isIn(["--quick", variant])]).toEqual([true, false, true]);
    const names = Object.values(rooms).flatMap((room) => Object.keys(room));
    expect([...variants].filter((name) => !names.includes(name))).toEqual([]);
  });

  it("are refused with an error that states the unknown name", () => {
    expect(() => parseOptions(["chess"])).toThrow(/unknown attack "chess": expected a room/);
    expect(() => parseOptions(["--fast"])).toThrow(/--fast/);
  });

  it("list every attack under a unique name", () => {
    const names = Object.values(rooms).flatMap((room) => Object.keys(room));
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !usage.includes(name))).toEqual([]);
  });
});
