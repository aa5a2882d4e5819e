// SPDX-License-Identifier: Apache-2.0
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Server, serve } from "@dm-env-rpc/server";
import { hasRedis, sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { allowedOpenFiles, expectOpenFiles } from "./files.ts";
import { soakMatchmaking } from "./matchmaking/soak.ts";
import type { Counters, Job } from "./play.ts";
import { soakSessions } from "./sessions/soak.ts";
import { counting, type WorldCounters, zeroCounters } from "./world.ts";

const usage = `Usage: npm run soak -- [PART...] [--quick]

Plays with servers over HTTP/2, from other processes, and checks that every step is accounted for:
  crowds      1,000 agents in one world in lockstep, then 2,000 agents in 500 worlds, a minute each
  sessions    16,384 and 32,768 sessions with a world each, over few connections and then over one each;
              they step for a minute
  churn       100,000 worlds created, joined, stepped and destroyed; the heap ends where it began
  matchmaker  three matchmakers on one Redis, four servers and 220 agents in TypeScript, Python and
              Go, while matchmakers, servers, agents and Redis are killed and suspended, Redis loses
              its data, and a hostile caller floods: three minutes. Fails without redis-server, Python's
              venv or Go
  --quick     a tenth of the agents for 3 s each, 1,024 sessions, 4,000 worlds, and 32 agents with half of the faults,
              in the languages that are installed
Exits 1 when anything is lost, wrong or left behind.
`;

const parts = ["crowds", "sessions", "churn", "matchmaker"] as const;

/** Allowed relative growth of the heap. */
const heapTolerance = 0.1;

/** Maximum time until every agent plays again after a fault. */
const recoveryMs = 8_000;

/** Sessions of one connection: maxStreamsPerConnection. */
const perConnection = 256;

/** Maximum time for connections to close. */
const quietMs = 60_000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const failures: string[] = [];
const print = (text: string): void => void process.stdout.write(text);

function expectEqual(what: string, value: number, expected: number): void {
  if (value !== expected) {
    failures.push(`${what}: expected ${expected}, received ${value}`);
  }
}

function row(name: string, value: string | number): void {
  const text = typeof value === "number" ? Math.round(value).toLocaleString("en") : value;
  print(`  ${name.padEnd(34)} ${text.padStart(12)}\n`);
}

/** Runs a job in another process; `onPlaying` is called when all agents play. */
async function played(job: Job, onPlaying: () => void = () => {}): Promise<Counters> {
  const child = fork(fileURLToPath(new URL("./agents-process.js", import.meta.url)), {
    stdio: "inherit",
  });
  let counters: Counters | undefined;
  child.on("message", (message: Counters | "playing") => {
    if (message === "playing") {
      onPlaying();
    } else {
      counters = message;
    }
  });
  child.send(job);
  await once(child, "exit");
  if (counters === undefined) {
    throw new Error("the process of the agents ended without a result");
  }
  return counters;
}

/** Starts a server with counters at zero. */
async function serving(): Promise<{ readonly server: Server; readonly done: WorldCounters }> {
  const done = zeroCounters();
  return { server: await serve({ worlds: [counting(done)] }), done };
}

async function crowds(worlds: number, agents: number, seconds: number): Promise<void> {
  const { server, done } = await serving();
  const from = performance.now();
  const counters = await played({ kind: "crowds", url: server.url, worlds, agents, seconds });
  const tookMs = performance.now() - from;
  print(`crowds: ${worlds} × ${agents} agents, ${seconds} s\n`);
  row("agents", counters.agents);
  row("steps answered", counters.answered);
  row("steps a second", counters.answered / seconds);
  row("ticks", done.ticks);
  row("sequences", done.sequences);
  row("longest wait, ms", counters.longestMs);
  row("resident memory, MB", process.memoryUsage().rss / 1e6);
  row("seconds, all in all", tookMs / 1000);
  expectEqual("agents", counters.agents, worlds * agents);
  expectEqual("answers", counters.answered, counters.sent);
  expectEqual("answers of either kind", counters.firsts + counters.taken, counters.answered);
  expectEqual("actions that worlds took", done.actions, counters.taken);
  expectEqual("wrong observations", counters.wrong, 0);
  await settled(server, done);
}

/** Starts all sessions at once, each with a world of its own, and steps them at a steady rate. */
async function sessions(
  count: number,
  sessionsPerConnection: number,
  everyMs: number,
  seconds: number,
): Promise<void> {
  const connections = Math.ceil(count / sessionsPerConnection);
  const title = `sessions: ${count.toLocaleString("en")} over ${connections.toLocaleString("en")} connections, ${1000 / everyMs} steps/s each, ${seconds} s\n`;
  const neededFiles = connections + 500;
  if (allowedOpenFiles() < neededFiles) {
    print(`${title}  skipped: it needs ${neededFiles} open files ("ulimit -n ${neededFiles}")\n`);
    return;
  }
  const summary = await soakSessions({ sessions: count, sessionsPerConnection, everyMs, seconds });
  const { connectMs, stepMs } = summary;
  print(title);
  row("ready, p50, s", (connectMs.p50 / 1000).toFixed(2));
  row("ready, p99, s", (connectMs.p99 / 1000).toFixed(2));
  row("ready, last, s", (connectMs.max / 1000).toFixed(2));
  row("steps", summary.steps);
  row("step, p50, ms", stepMs.p50.toFixed(1));
  row("step, p99, ms", stepMs.p99.toFixed(1));
  row("step, longest, ms", stepMs.max);
  row("resident memory, MB", summary.residentBytes / 1e6);
  row("the same per session, kB", (summary.residentBytes - summary.residentBefore) / 1e3 / count);
  row("success", `${(summary.success * 100).toFixed(2)} %`);
  expectEqual("sessions that lived to the end", summary.success * count, count);
  expectEqual("connections and worlds left behind", summary.left, 0);
  if (summary.firstFailure !== undefined) {
    failures.push(summary.firstFailure);
  }
}

/** Waits until every connection has closed. */
async function quiet(server: Server): Promise<void> {
  const end = performance.now() + quietMs;
  while (server.sessionCount > 0 && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Checks that every agent has left and every world is gone. */
async function settled(server: Server, done: WorldCounters): Promise<void> {
  await quiet(server);
  expectEqual("connections left behind", server.sessionCount, 0);
  expectEqual("worlds left behind", server.worldNames().length, 0);
  expectEqual("agents left behind", done.joined - done.left, 0);
  expectEqual("worlds destroyed", done.destroyed, done.created);
  await server.close();
}

function heapBytes(): number {
  for (let i = 0; i < 4; i++) {
    collect();
  }
  return process.memoryUsage().heapUsed;
}

async function churn(worlds: number): Promise<void> {
  const { server, done } = await serving();
  const job = { kind: "churn", url: server.url, connections: 16 } as const;
  await played({ ...job, worlds: 2000 });
  await quiet(server);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const before = heapBytes();
  const from = performance.now();
  const counters = await played({ ...job, worlds });
  const tookMs = performance.now() - from;
  await quiet(server);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const after = heapBytes();
  print(`churn: ${worlds.toLocaleString("en")} worlds, after 2,000 to warm up\n`);
  row("worlds", counters.worlds);
  row("worlds a second", (counters.worlds * 1000) / tookMs);
  row("heap before, kB", before / 1000);
  row("heap after, kB", after / 1000);
  row("change", `${(((after - before) / before) * 100).toFixed(1)} %`);
  row("resident memory, MB", process.memoryUsage().rss / 1e6);
  expectEqual("worlds", counters.worlds, worlds);
  expectEqual("steps answered", counters.answered, counters.sent);
  expectEqual("wrong observations", counters.wrong, 0);
  if (Math.abs(after - before) > before * heapTolerance) {
    failures.push(`the heap went from ${before} to ${after} bytes, more than ±10 %`);
  }
  await settled(server, done);
}

async function matchmaker(quick: boolean): Promise<void> {
  if (!hasRedis) {
    sayWhetherRedis();
    if (!quick) {
      failures.push("expected redis-server, received none; install Debian's package redis-server");
    }
    return;
  }
  print("matchmaker: agents in three languages, kills, standstills and a flood\n");
  const began = performance.now();
  const crowd = quick
    ? { typescript: 16, python: 4, go: 12 }
    : { typescript: 120, python: 20, go: 80 };
  const { ledger, agents, recoveries, without, left } = await soakMatchmaking({
    ...crowd,
    quick,
    onProgress: (text) => print(`  ${text}\n`),
  });
  const { fates, killed, fullest } = ledger;
  for (const missing of without) {
    print(`  ${missing}\n`);
  }
  if (!quick) {
    failures.push(...without);
  }
  row("surviving agents", agents);
  row("tickets of all agents, one per turn", ledger.turns);
  row("sequences finished", fates.finished);
  row("turns lost with their world", fates.lost);
  row("turns in which the other agents did not arrive", fates.alone);
  row("turns whose ticket failed", fates.failed);
  row("turns that ended with the soak", fates["given-up"]);
  row("turns killed with their agent", killed);
  row("agents in the fullest world", `${fullest.agents} of ${fullest.seats}`);
  row("longest wait for a first step, ms", ledger.longestWaitMs);
  row("seconds, all in all", (performance.now() - began) / 1_000);
  print(
    `\n  ${"fault".padEnd(38)} ${"all play again, s".padStart(18)} ${"pause, s".padStart(9)} ${"longest wait, s".padStart(16)}\n`,
  );
  for (const { fault, stopsService, allMs, pauseMs, note } of recoveries) {
    const all = allMs === undefined ? "never" : inSeconds(allMs);
    const wait = inSeconds(ledger.longestWaitDuringMs(fault));
    const times = [all.padStart(18), inSeconds(pauseMs).padStart(9), wait.padStart(16)];
    print(`  ${fault.padEnd(38)} ${times.join(" ")}  ${note}\n`);
    if (allMs === undefined || allMs > recoveryMs) {
      failures.push(
        `${fault}: expected a recovery within ${recoveryMs / 1_000} s, received ${all} s`,
      );
    }
    if (pauseMs > recoveryMs && !stopsService) {
      failures.push(
        `${fault}: expected matches within ${recoveryMs / 1_000} s of its start, received ${inSeconds(pauseMs)} s`,
      );
    }
  }
  const shown = 20;
  failures.push(...ledger.violations.slice(0, shown));
  if (ledger.violations.length > shown) {
    failures.push(`${ledger.violations.length - shown} more violations`);
  }
  for (const what of left) {
    failures.push(`left behind: ${what}`);
  }
}

function inSeconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}

async function main(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { quick: { type: "boolean", default: false }, help: { type: "boolean" } },
  });
  if (values.help === true) {
    print(usage);
    return;
  }
  const unknown = positionals.find((part) => !parts.some((known) => known === part));
  if (unknown !== undefined) {
    throw new Error(`unknown argument "${unknown}"\n${usage}`);
  }
  const isWanted = (part: (typeof parts)[number]): boolean =>
    positionals.length === 0 || positionals.includes(part);
  const { quick } = values;
  expectOpenFiles(quick ? 2000 : 2500);
  if (isWanted("crowds")) {
    await crowds(1, quick ? 100 : 1000, quick ? 3 : 60);
    await crowds(quick ? 50 : 500, 4, quick ? 3 : 60);
  }
  if (isWanted("sessions")) {
    for (const sessionsPerConnection of [perConnection, 1]) {
      if (quick) {
        await sessions(1_024, sessionsPerConnection, 500, 3);
      } else {
        await sessions(16_384, sessionsPerConnection, 500, 60);
        await sessions(32_768, sessionsPerConnection, 1_000, 60);
      }
    }
  }
  if (isWanted("churn")) {
    await churn(quick ? 4000 : 100_000);
  }
  if (isWanted("matchmaker")) {
    await matchmaker(quick);
  }
  for (const failure of failures) {
    print(`FAILED ${failure}\n`);
  }
  print(failures.length === 0 ? "nothing lost, nothing left behind\n" : "");
  process.exitCode = failures.length === 0 ? 0 : 1;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
