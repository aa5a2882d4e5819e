// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { help, parseCommand } from "./options.ts";

const parse = (line: string) => parseCommand(line.split(" ").filter((word) => word !== ""));

test("without flags, one agent plays a thousand steps at the default address", () => {
  expect(parse("")).toEqual({
    kind: "play",
    address: "127.0.0.1:8980",
    agents: 1,
    world: undefined,
    matchmakers: [],
    steps: 1000,
    seed: undefined,
    json: false,
  });
});

test("every flag is read, as --flag value and --flag=value", () => {
  expect(
    parse(
      "--address [::1]:9000 --agents=4 --world arena --steps 20 --seed=18446744073709551615 --json",
    ),
  ).toEqual({
    kind: "play",
    address: "[::1]:9000",
    agents: 4,
    world: "arena",
    matchmakers: [],
    steps: 20,
    seed: 18446744073709551615n,
    json: true,
  });
  expect(parse("--matchmaker a:1 --matchmaker=b:2")).toMatchObject({
    kind: "play",
    matchmakers: ["a:1", "b:2"],
  });
  expect(parse("--world=")).toMatchObject({ kind: "play", world: "" });
  expect(parse("--help")).toEqual({ kind: "help" });
  expect(parse("--version")).toEqual({ kind: "version" });
});

test.each([
  ["--foo", "unknown flag --foo"],
  ["-x", "unknown flag -x"],
  ["--no-json", "unknown flag --no-json"],
  ["arena", 'expected flags only, received "arena"'],
  ["--agents", "expected a value after --agents, received none"],
  ["--json=yes", 'expected no value for --json, received "yes"'],
  ["--agents 0", 'expected a whole number from 1 to 10000 for --agents, received "0"'],
  ["--agents 1.5", 'expected a whole number from 1 to 10000 for --agents, received "1.5"'],
  ["--steps -3", 'expected a whole number of at least 1 for --steps, received "-3"'],
  ["--steps 1e3", 'expected a whole number of at least 1 for --steps, received "1e3"'],
  ["--seed -1", 'expected a whole number from 0 to 2^64 - 1 for --seed, received "-1"'],
  [
    "--matchmaker a:1 --world w",
    "expected either --matchmaker, or --address and --world, received both",
  ],
  [
    "--matchmaker here",
    'expected HOST:PORT with a port from 1 to 65535 for --matchmaker, received "here"',
  ],
  [
    "--address here",
    'expected HOST:PORT with a port from 1 to 65535 for --address, received "here"',
  ],
  [
    "--address h:70000",
    'expected HOST:PORT with a port from 1 to 65535 for --address, received "h:70000"',
  ],
])("%s is refused in one line", (line, message) => {
  expect(parse(line)).toEqual({ kind: "wrong", message: `${message}; see --help` });
});

test("the help names every flag", () => {
  for (const flag of [
    "address",
    "agents",
    "world",
    "matchmaker",
    "steps",
    "seed",
    "json",
    "help",
    "version",
  ]) {
    expect(help).toContain(`--${flag} `.trimEnd());
  }
});
