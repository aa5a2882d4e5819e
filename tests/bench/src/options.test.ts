// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { comparedTables, defaultTables, parseOptions, tables } from "./options.ts";

describe("the command line", () => {
  it("without arguments measures the default tables", () => {
    expect(parseOptions([])).toMatchObject({ tables: defaultTables, quick: false });
  });

  it("names tables, each measured once and in the order of the list", () => {
    expect(parseOptions(["large", "rpc", "large"]).tables).toEqual(["rpc", "large"]);
    expect(parseOptions(["codec", "all"]).tables).toEqual(tables);
  });

  it("accepts options before and after the tables", () => {
    const options = parseOptions([
      "--quick",
      "rpc",
      "--json",
      "out.json",
      "--only",
      "ours,connect",
    ]);
    expect(options).toMatchObject({
      tables: ["rpc"],
      quick: true,
      json: "out.json",
      only: ["ours", "connect"],
    });
  });

  it("refuses an unknown table and lists the known ones", () => {
    expect(() => parseOptions(["rcp"])).toThrow(/expected a table \(rpc, .*received "rcp"/);
  });

  it("accepts a base after ab, with the tables that can be compared", () => {
    expect(parseOptions(["ab", "HEAD~3"])).toMatchObject({ base: "HEAD~3", tables: defaultTables });
    expect(parseOptions(["ab", "HEAD", "client", "rpc"]).tables).toEqual(["rpc", "client"]);
    expect(parseOptions(["ab", "HEAD", "all"]).tables).toEqual(comparedTables);
    expect(() => parseOptions(["ab", "HEAD", "growth"])).toThrow(/expected a table .*"growth"/);
    expect(() => parseOptions(["ab"])).toThrow("expected a commit or a folder after ab");
  });

  it("refuses unknown options", () => {
    expect(() => parseOptions(["--fast"])).toThrow("--fast");
  });
});
