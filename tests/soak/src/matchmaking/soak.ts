// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, ServerState, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { Program, RedisServer, type ServingProgram } from "@dm-env-rpc/tests-processes";
import type { Counters, Order } from "./agents.ts";

/** Parameters of the matchmaker's soak. */
export interface MatchmakingJob {
  readonly agents: number;
  readonly seconds: number;
}

/** Result of the matchmaker's soak. */
export interface Matchmaking {
  readonly counters: Counters;
  /** Tickets, matches and worlds that remain after all agents have stopped. */
  readonly left: readonly string[];
}

const groupSize = 4;
const patienceMs = 120_000;
const matchmakerMain = fileURLToPath(import.meta.resolve("@dm-env-rpc/matchmaker-server/main"));
const gridworldMain = fileURLToPath(import.meta.resolve("@dm-env-rpc/gridworld-server/main"));

const profiles = [
  {
    name: "four",
    pools: [{ name: "all" }],
    matchFunction: { byCount: { count: groupSize } },
    worldType: "gridworld",
    worldSettings: {
      min_agents: { int32s: { array: [groupSize] } },
      max_agents: { int32s: { array: [groupSize] } },
      max_steps: { int32s: { array: [50] } },
    },
    // If an agent is killed before it joins, the others wait for its replacement.
    backfill: true,
    seatTimeout: "15s",
  },
];

/**
 * Runs three matchmakers on one Redis, four gridworld servers, and agents that play sequence after sequence, and
 * kills the leading matchmaker, a server and an agent.
 */
export async function soakMatchmaking({ agents, seconds }: MatchmakingJob): Promise<Matchmaking> {
  const folder = await mkdtemp(join(tmpdir(), "soak-matchmaking-"));
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => rm(folder, { recursive: true }));
  const file = join(folder, "profiles.json");
  await writeFile(file, JSON.stringify(profiles));
  const redis = cleanUp.use(await RedisServer.start({ sync: "everysec" }));
  const start = async (main: string, ...args: readonly string[]): Promise<ServingProgram> =>
    cleanUp.use(await Program.serving(main, ["--port", "0", ...args]));
  const flags = ["--redis", redis.url, "--profiles", file, "--log-level", "error"];
  // The first matchmaker leads.
  const leader = await start(matchmakerMain, ...flags);
  const others = [await start(matchmakerMain, ...flags), await start(matchmakerMain, ...flags)];
  const survivor = createClient(
    AdminService,
    createGrpcTransport({ baseUrl: others[0]?.url ?? "" }),
  );
  const matchmakers = [leader, ...others].map(({ url }) => url);
  const asked = matchmakers.flatMap((url) => ["--matchmaker", url]);
  const room = String(Math.ceil(agents / groupSize / 3));
  const servers: ServingProgram[] = [];
  for (let server = 0; server < 4; server++) {
    servers.push(await start(gridworldMain, ...asked, "--max-worlds", room));
  }
  const crowd = cleanUp.use(new Agents({ kind: "play", matchmakers, agents: agents - 1 }));
  const doomed = cleanUp.use(new Agents({ kind: "play", matchmakers, agents: 1 }));
  await Promise.all([crowd.playing, doomed.playing]);

  const ends = performance.now() + seconds * 1_000;
  const killEveryMs = (seconds * 1_000) / 6;
  await setTimeout(killEveryMs);
  await leader.kill();
  await setTimeout(killEveryMs);
  await (await busiest(servers, survivor)).kill();
  await setTimeout(killEveryMs);
  await doomed.kill();
  crowd.order({ kind: "kills-over" });
  await setTimeout(Math.max(0, ends - performance.now()));
  // On a slow machine the last agents need longer. The others continue to play, so that the last ones find a match.
  await Promise.race([crowd.allFinished, setTimeout(patienceMs, undefined, { ref: false })]);
  crowd.order({ kind: "end" });
  const counters = await crowd.counters;
  return { counters, left: await leftovers(survivor) };
}

type Admin = Client<typeof AdminService>;

/** Returns the server with the most worlds. */
async function busiest(programs: readonly ServingProgram[], admin: Admin): Promise<ServingProgram> {
  const { servers } = await admin.listServers({});
  const [first] = servers.sort((a, b) => b.worlds.length - a.worlds.length);
  const found = programs.find(({ url }) => url === first?.address);
  if (found === undefined) {
    throw new Error("no server is registered");
  }
  return found;
}

/** A process of agents. */
class Agents implements AsyncDisposable {
  /** Resolves when as many sequences as agents have finished. */
  readonly playing: Promise<void>;
  /** Resolves when each agent has finished a sequence after the kills. */
  readonly allFinished: Promise<void>;
  readonly counters: Promise<Counters>;
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(order: Order) {
    const main = fileURLToPath(new URL("./agents.js", import.meta.url));
    const child = fork(main, { stdio: "inherit" });
    this.#process = child;
    this.#ended = once(child, "exit");
    const heard = (message: string): Promise<void> =>
      new Promise((resolve) => {
        child.on("message", (counters) => {
          if (counters === message) {
            resolve();
          }
        });
      });
    this.playing = heard("playing");
    this.allFinished = heard("all finished");
    this.counters = new Promise<Counters>((resolve, reject) => {
      child.on("message", (message: Counters | string) => {
        if (typeof message !== "string") {
          resolve(message);
        }
      });
      child.once("exit", () =>
        reject(new Error("the process of the agents ended without a result")),
      );
    });
    // Marks the promise as handled: killed agents have no result.
    this.counters.catch(() => {});
    this.order(order);
  }

  order(order: Order): void {
    this.#process.send(order);
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

const settleMs = 60_000;

/** Lists what remains after all agents have left and the matchmaker had time to clean up. */
async function leftovers(admin: Admin): Promise<string[]> {
  for (const end = performance.now() + settleMs; ; await setTimeout(200)) {
    const { servers } = await admin.listServers({});
    const serving = servers.filter(({ state }) => state === ServerState.SERVING);
    const here = new Set(serving.map(({ id }) => id));
    const { matches } = await admin.listMatches({ pageSize: 1_000 });
    const { tickets } = await admin.listTickets({
      pageSize: 1_000,
      state: TicketState.WAITING,
    });
    const left = [
      ...tickets.map(({ id }) => `ticket ${id}`),
      // The matches of a killed server are removed with it.
      ...matches.filter(({ serverId }) => here.has(serverId)).map(({ id }) => `match ${id}`),
      ...serving.flatMap(({ worlds, address }) =>
        worlds.map(({ name }) => `${name} at ${address}`),
      ),
    ];
    if (left.length === 0 || performance.now() > end) {
      return left;
    }
  }
}
