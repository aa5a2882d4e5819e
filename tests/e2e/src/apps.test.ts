// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { connect } from "@dm-env-rpc/client";
import { SpectatorService } from "@dm-env-rpc/protocol/spectator";
import type { Program } from "@dm-env-rpc/tests-processes";
import { describe, expect, it } from "vitest";
import { gridworldServer, startApp } from "./programs.ts";

const oneLine = /^[^\n]+\n$/;

describe("gridworld-server", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "ends cleanly on %s, with agents stepping",
    async (signal) => {
      await using server = await gridworldServer();
      await using agent = startApp("random-agent", [
        "--address",
        server.address,
        "--steps",
        "1000000",
      ]);
      await agent.says(/[1-9]\d* sequences/);
      server.process.kill(signal);
      expect(await server.ended).toBe(0);
      expect(await agent.ended).not.toBe(0);
      expect(server.stderr).toBe("");
    },
  );

  it("interrupts agents on SIGTERM, and then ends", async () => {
    await using server = await gridworldServer("--grace-ms", "30000");
    await using connection = await connect(server.address);
    await using env = await connection.join(await connection.createWorld());
    await env.reset();
    server.process.kill("SIGTERM");
    let step = await env.step({ move: 1 });
    while (!step.last()) {
      step = await env.step({ move: 1 });
    }
    expect(step.discount).toBe(1);
    expect(await server.ended).toBe(0);
    expect(server.stderr).toBe("");
  });

  it("sums up bad connections on standard error", async () => {
    await using server = await gridworldServer();
    const [host, port] = server.address.split(":");
    const closed = Array.from({ length: 500 }, async () => {
      const socket = connectTcp(Number(port), host).on("error", () => {});
      socket.resume().end("no request at all\r\n\r\n");
      await once(socket, "close");
    });
    await Promise.all(closed);
    expect(await server.stop()).toBe(0);
    const lines = server.stderr.split("\n").filter((line) => line !== "");
    const sums = [...server.stderr.matchAll(/: and ([\d,]+) more in the last \d+ s\n/g)];
    const summed = sums.reduce((sum, [, more = ""]) => sum + Number(more.replaceAll(",", "")), 0);
    expect(lines.length).toBeLessThan(100);
    expect(summed + lines.length - sums.length).toBeGreaterThanOrEqual(500);
  });

  it("ends at once on a second signal, even during the grace period", async () => {
    await using server = await gridworldServer("--grace-ms", "600000");
    await using connection = await connect(server.address);
    await using env = await connection.join(await connection.createWorld());
    await env.reset();
    server.process.kill("SIGTERM");
    server.process.kill("SIGINT");
    expect(await server.ended).toBe(0);
  });

  it("prints one line if its port is in use", async () => {
    await using server = await gridworldServer();
    const port = server.address.split(":")[1] ?? "";
    await using second = startApp("gridworld-server", ["--port", port]);
    expect(await second.ended).toBe(1);
    expect(second.stderr).toMatch(oneLine);
    expect(second.stderr).toContain(port);
  });

  it.each([
    [["--prot", "1"], /--prot/],
    [["--port", "eighty"], /--port.*eighty/],
    [["--port"], /--port/],
    [["--host", "0.0.0.0"], /^--host 0\.0\.0\.0 .*--allow-insecure/],
    [["--host", "no.such.host.invalid", "--allow-insecure"], /no\.such\.host/],
    [["--clock", "sundial"], /--clock.*sundial.*--help/],
    [["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.pem"], /--tls-cert.*nowhere\.pem/],
  ])("says in one line what is wrong with %j", async (args, message) => {
    await using server = startApp("gridworld-server", args);
    expect(await server.ended).toBe(1);
    expect(server.stderr).toMatch(oneLine);
    expect(server.stderr).toMatch(message);
    expect(server.stdout).toBe("");
  });

  it("prints its flags and its version", async () => {
    await using help = startApp("gridworld-server", ["--help"]);
    await using version = startApp("gridworld-server", ["--version"]);
    expect(await help.ended).toBe(0);
    expect(help.stdout).toMatch(/--port/);
    expect(await version.ended).toBe(0);
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("random-agent", () => {
  it("plays the given number of steps and prints a summary", async () => {
    await using server = await gridworldServer();
    const args = ["--address", server.address, "--agents", "4", "--steps", "200", "--seed", "7"];
    await using first = startApp("random-agent", [...args, "--json"]);
    expect(await first.ended).toBe(0);
    const summary = JSON.parse(first.stdout);
    expect(summary).toMatchObject({ steps: 800, endedEarly: false });
    expect(summary.agents).toHaveLength(4);
    for (const agent of summary.agents) {
      expect(agent.steps).toBe(200);
      expect(agent.sequences).toBeGreaterThan(0);
    }
  });

  it("prints one line if the world does not exist", async () => {
    await using server = await gridworldServer();
    await using agent = startApp("random-agent", [
      "--address",
      server.address,
      "--world",
      "atlantis",
    ]);
    expect(await agent.ended).toBe(1);
    expect(agent.stderr).toMatch(oneLine);
    expect(agent.stderr).toMatch(/atlantis/);
  });

  it("prints one line if the server dies during a step", async () => {
    await using server = await gridworldServer();
    await using agent = startApp("random-agent", [
      "--address",
      server.address,
      "--steps",
      "1000000",
    ]);
    await agent.says(/[1-9]\d* steps /);
    server.process.kill("SIGKILL");
    expect(await agent.ended).toBe(1);
    const said = agent.stderr.split("\n").filter((line) => !/steps\/s/.test(line));
    expect(said).toEqual([expect.stringMatching(/^random-agent: .*(lost|gone|closed)/), ""]);
    expect(agent.stdout).toBe("");
  });
});

describe("agents in one world", () => {
  it("continue when one of them is killed during a sequence", async () => {
    await using server = await gridworldServer("--deadline-ms", "0");
    await using connection = await connect(server.address);
    const world = await connection.createWorld({ settings: { max_steps: 1_000_000 } });
    const play = () =>
      startApp("random-agent", [
        "--address",
        server.address,
        "--world",
        world,
        "--steps",
        "1000000",
      ]);
    await using one = play();
    await using two = play();
    await using three = play();
    await using doomed = play();
    const all = [one, two, three, doomed];
    await Promise.all(all.map((agent) => agent.says(/([\d,]+) steps /)));
    doomed.process.kill("SIGKILL");
    expect(await doomed.ended).toBe("SIGKILL");
    for (const agent of [one, two, three]) {
      agent.stderr = "";
    }
    await Promise.all(
      [one, two, three].map((agent) => agent.says(/steps .*\n.*[1-9][\d,]* steps /)),
    );
    for (const agent of [one, two, three]) {
      const counts = [...agent.stderr.matchAll(/([\d,]+) steps /g)].map(([, count = ""]) =>
        Number(count.replaceAll(",", "")),
      );
      expect(counts.at(-1)).toBeGreaterThan(counts[0] ?? Number.NaN);
    }
  });
});

/**
 * Returns the standard error of a demo without the lines that its servers log when a call to the matchmaker times out, as it
 * does on a machine that stands still.
 */
function complaintsOf({ stderr }: Program): string {
  return stderr.replace(/^not registered: .*; trying again\n/gm, "");
}

describe("npm start", () => {
  it("matches eight agents, plays whole sequences on two servers, and ends by itself", async () => {
    await using demo = startApp("demo", ["--steps", "120"]);
    expect(await demo.ended).toBe(0);
    expect(complaintsOf(demo)).toBe("");
    const placed = [
      ...demo.stdout.matchAll(/^4 tickets matched: world "gridworld-1" placed on (\S+)$/gm),
    ];
    expect(new Set(placed.map(([, address]) => address)).size).toBe(2);
    expect(demo.stdout).toMatch(/step \d+\/50 {2}running.*step \d+\/50 {2}running/);
    expect(demo.stdout).toMatch(/^8 agents in 2 worlds on 2 servers/m);
    const agents = [
      ...demo.stdout.matchAll(/^ {2}agent \d {2}120 steps, (\d+) sequences? completed/gm),
    ];
    expect(agents).toHaveLength(8);
    for (const [, sequences] of agents) {
      expect(Number(sequences)).toBeGreaterThan(0);
    }
    const returns = /^ {2}mean return of greedy agents ([\d.]+), of random/m.exec(demo.stdout);
    expect(Number(returns?.[1])).toBeGreaterThan(0);
    const lines = demo.stdout.split("\n");
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });

  it("plays on while the page is open, and ends once it is closed", async () => {
    // At 100 ms each, so that the viewer comes in time even on a machine that stands still.
    await using demo = startApp("demo", ["--steps", "80"]);
    await demo.says(/^watch at \S+\n/m);
    const [, baseUrl = ""] = /^watch at (\S+)$/m.exec(demo.stdout) ?? [];
    const spectators = createClient(SpectatorService, createGrpcTransport({ baseUrl }));
    const closed = new AbortController();
    const agents = new Set<number>();
    const watching = (async () => {
      for await (const { worlds } of spectators.watchWorlds({}, { signal: closed.signal })) {
        for (const world of worlds) {
          agents.add(world.agents);
        }
      }
    })();
    await demo.says(/^the page is open[^\n]*\n[\s\S]*^4 tickets matched/m);
    closed.abort();
    await expect(watching).rejects.toThrow(/abort/i);
    expect(agents).toContain(4);
    expect(await demo.ended).toBe(0);
    expect(complaintsOf(demo)).toBe("");
  });

  it.each(["SIGINT", "SIGTERM"] as const)("ends on %s with a summary", async (signal) => {
    await using demo = startApp("demo", ["--forever"]);
    // Both boards, side by side.
    await demo.says(/step \d+\/50 {2}running.*step \d+\/50 {2}running/);
    demo.process.kill(signal);
    expect(await demo.ended).toBe(0);
    expect(complaintsOf(demo)).toBe("");
    expect(demo.stdout).toMatch(/^8 agents in 2 worlds on 2 servers, ended early/m);
  });

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("ends on %s while it starts, without a word", async (signal, status) => {
    for (;;) {
      await using demo = startApp("demo", []);
      // The servers have not started yet.
      await demo.says(/^matchmaker at/m);
      demo.process.kill(signal);
      const ended = await demo.ended;
      expect(complaintsOf(demo)).toBe("");
      // If this process stands still, the signal arrives after the start, and the demo has said more.
      if (/^watch at \S+\nmatchmaker at [^\n]+\n$/.test(demo.stdout)) {
        expect(ended).toBe(status);
        break;
      }
    }
  });

  // Only Linux lists the children of a process in a file.
  it.skipIf(process.platform !== "linux")(
    "prints one line that names a killed server, and ends",
    async () => {
      await using demo = startApp("demo", ["--forever"]);
      await demo.says(/step \d+\/50 {2}running/);
      const { pid } = demo.process;
      const [_matchmaker, gridworld] = readFileSync(
        `/proc/${pid}/task/${pid}/children`,
        "utf8",
      ).split(" ");
      process.kill(Number(gridworld), "SIGKILL");
      expect(await demo.ended).toBe(1);
      expect(complaintsOf(demo)).toMatch(
        /^the gridworld-server at \S+ ended with SIGKILL, so the demo ends, too\n$/,
      );
    },
  );

  it("prints one line for invalid flags", async () => {
    await using demo = startApp("demo", ["--steps", "many"]);
    expect(await demo.ended).toBe(1);
    expect(demo.stderr).toMatch(/^--steps.*many[^\n]*\n$/);
  });
});
