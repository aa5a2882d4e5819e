// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { comparedTables, defaultTables, parseOptions, tables } from "./options.ts";

describe("the command line", () => {
  it("without arguments measures what a newcomer wants to know", () => {
    expect(parseOptions([])).toMatchObject({ tables: defaultTables, quick: false });
  });

  it("names tables, each measured once and in the order of the list", () => {
    expect(parseOptions(["large", "rpc", "large"]).tables).toEqual(["rpc", "large"]);
    expect(parseOptions(["codec", "all"]).tables).toEqual(tables);
  });

  it("takes options before and behind the tables", () => {
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

  it("says which tables there are when it is given another", () => {
    expect(() => parseOptions(["rcp"])).toThrow(/expected a table \(rpc, .*received "rcp"/);
  });

  it("compares with a base after ab, in the tables that can be compared", () => {
    expect(parseOptions(["ab", "HEAD~3"])).toMatchObject({ base: "HEAD~3", tables: defaultTables });
    expect(parseOptions(["ab", "HEAD", "client", "rpc"]).tables).toEqual(["rpc", "client"]);
    expect(parseOptions(["ab", "HEAD", "all"]).tables).toEqual(comparedTables);
    expect(() => parseOptions(["ab", "HEAD", "growth"])).toThrow(/expected a table .*"growth"/);
    expect(() => parseOptions(["ab"])).toThrow("expected a commit or a folder after ab");
  });

  it("refuses options that there are not", () => {
    expect(() => parseOptions(["--fast"])).toThrow("--fast");
  });
});
