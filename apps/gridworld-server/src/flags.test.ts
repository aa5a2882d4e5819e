// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { clockNames } from "./clocks.ts";
import { help, readFlags } from "./flags.ts";

describe("the command line", () => {
  it("has a default for every flag but those of TLS and matchmaking", () => {
    expect(readFlags([])).toEqual({
      host: "127.0.0.1",
      port: 8980,
      allowInsecure: false,
      page: false,
      tls: undefined,
      clock: "lockstep",
      deadlineMs: 10_000,
      ticksPerSecond: 10,
      destroy: "refuse",
      listenBacklog: 4096,
      maxWorlds: 1000,
      idleWorldMs: 600_000,
      graceMs: 5000,
      metricsPort: undefined,
      matchmaking: undefined,
      show: undefined,
    });
  });

  it("sets every option", () => {
    const args =
      "--host ::1 --port 0 --allow-insecure --tls-cert c --tls-key k --tls-ca a --clock realtime --ticks-per-second 30 --destroy drain --listen-backlog 9 --max-worlds 7 --idle-world-ms 0 --grace-ms 1 --metrics-port 9";
    expect(readFlags(args.split(" "))).toMatchObject({
      host: "::1",
      port: 0,
      allowInsecure: true,
      tls: { cert: "c", key: "k", ca: "a" },
      clock: "realtime",
      ticksPerSecond: 30,
      destroy: "drain",
      listenBacklog: 9,
      maxWorlds: 7,
      idleWorldMs: 0,
      graceMs: 1,
      metricsPort: 9,
    });
    const matchmaking =
      "--matchmaker a:1 --matchmaker b:2 --advertise c:3 --region north --label tier=large --label a/b=c=d --max-agents 9 --matchmaker-token t --matchmaker-ca m";
    expect(readFlags(matchmaking.split(" "))).toMatchObject({
      destroy: "force",
      matchmaking: {
        matchmakers: ["a:1", "b:2"],
        advertise: "c:3",
        region: "north",
        labels: { tier: "large", "a/b": "c=d" },
        maxAgents: 9,
        token: "t",
        ca: "m",
      },
    });
    for (const clock of ["lockstep", "turns", "freeRunning", "wakeUp"]) {
      const flags = readFlags(["--clock", clock, "--deadline-ms", "5"]);
      expect(flags).toMatchObject({ clock, deadlineMs: 5 });
    }
  });

  it.each([
    [["--clock", "sundial"], /--clock: expected one of lockstep, turns, .*wakeUp.*"sundial"/],
    [["--destroy", "maybe"], /--destroy: expected one of refuse, drain, force.*"maybe"/],
    [
      ["--ticks-per-second", "5"],
      /--ticks-per-second: expected with --clock realtime, received with --clock lockstep/,
    ],
    [
      ["--clock", "realtime", "--deadline-ms", "5"],
      /--deadline-ms: expected with --clock lockstep, turns, freeRunning or wakeUp, received with --clock realtime/,
    ],
    [["--clock", "realtime", "--ticks-per-second", "0"], /--ticks-per-second: .* 1 to 1000.*"0"/],
    [["--max-worlds", "0"], /--max-worlds: .*"0"/],
    [["--idle-world-ms", "-1"], /--idle-world-ms/],
    [["--grace-ms", "1e3"], /--grace-ms: .*"1e3"/],
    [["--host", "0.0.0.0"], /--host 0\.0\.0\.0 .*--tls-cert and --tls-key, or --allow-insecure/],
    [["--tls-cert", "c"], /--tls-cert and --tls-key: expected both, received only --tls-cert/],
    [["--tls-ca", "a"], /--tls-cert and --tls-key: expected both, received only --tls-ca/],
    [["--advertise", "a:1"], /--advertise: expected with --matchmaker, received without it/],
    [
      ["--matchmaker", "a:1", "--allow-insecure", "--host", "0.0.0.0"],
      /--host 0\.0\.0\.0.*--advertise/,
    ],
    [["--matchmaker", "a:1", "--matchmaker", "here"], /--matchmaker: expected HOST:PORT.*"here"/],
    [["--matchmaker", "a:1", "--advertise", "ftp://b:2"], /--advertise: expected .*"ftp:\/\/b:2"/],
    [["--matchmaker", ""], /--matchmaker: expected .*""/],
    [["--matchmaker", "a:1", "--label", "=x"], /--label: expected KEY=VALUE, received "=x"/],
    [["--matchmaker", "a:1", "--max-agents", "0"], /--max-agents: .*"0"/],
    [["--prot", "1"], /--prot/],
    [["surplus"], /surplus/],
  ])("is refused with one line that names the mistake in %j and --help", (args, message) => {
    expect(() => readFlags(args)).toThrow(message);
    expect(() => readFlags(args)).toThrow(/^[^\n]+; see --help$/);
  });

  it("has every flag in its help", () => {
    for (const flag of ["tls-cert", "tls-key", "tls-ca", "clock", "deadline-ms"]) {
      expect(help).toContain(`--${flag} `);
    }
    for (const flag of [
      "ticks-per-second",
      "listen-backlog",
      "max-worlds",
      "idle-world-ms",
      "destroy",
      "grace-ms",
    ]) {
      expect(help).toContain(`--${flag} `);
    }
    for (const flag of ["matchmaker", "advertise", "max-agents", "matchmaker-token"]) {
      expect(help).toMatch(new RegExp(`--${flag}\\s`));
    }
    expect(help.split("\n").every((line) => line.length <= 90)).toBe(true);
  });

  it.each(clockNames)("documents the clock %s", (name) => {
    expect(help).toMatch(new RegExp(`\\(${name}\\b`));
  });

  it("has every clock of the README", () => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const [, table = ""] = /^\| clock \|.*\n((?:\|.*\n)+)/m.exec(readme) ?? [];
    const rows = table.matchAll(/^\| `(\w+)`/gm);
    expect([...rows].map(([, name]) => name)).toEqual(clockNames);
  });
});
