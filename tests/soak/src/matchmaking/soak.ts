// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { ServerState, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { faults } from "./faults.ts";
import { Fleet } from "./fleet.ts";
import { go, python, typescript } from "./languages.ts";
import { Ledger } from "./ledger.ts";

/** Parameters of the matchmaker's soak. */
export interface MatchmakingJob {
  /** Agents in each language. */
  readonly typescript: number;
  readonly python: number;
  readonly go: number;
  /** True to provoke only some of the faults. */
  readonly quick: boolean;
  /** Receives progress messages. */
  readonly onProgress: (text: string) => void;
}

/** The recovery from one fault. */
export interface Recovery {
  readonly fault: string;
  /** True if no match was possible while the fault lasted. */
  readonly stopsService: boolean;
  /** Time until every agent had begun another sequence; undefined if one had not. */
  readonly allMs: number | undefined;
  /** Longest time in which no sequence began, from the start of the fault to the recovery of every agent. */
  readonly pauseMs: number;
  readonly note: string;
}

/** Result of the matchmaker's soak. */
export interface Matchmaking {
  readonly ledger: Ledger;
  readonly agents: number;
  readonly recoveries: readonly Recovery[];
  /** Languages without agents, with the reason. */
  readonly without: readonly string[];
  /** Tickets, matches and worlds that remain after all agents have stopped. */
  readonly left: readonly string[];
}

/** Maximum time for all agents to play again. */
const patienceMs = 60_000;
/** Time in which agents play undisturbed between two faults. */
const calmMs = 3_000;
/** Agents in the processes that are killed, and suspended. */
const doomedAgents = 4;
const suspendedAgents = 4;

/**
 * Runs three matchmakers on one Redis, four servers, and agents in three languages that play
 * sequence after sequence; kills, suspends and floods them; and accounts for every turn.
 */
export async function soakMatchmaking(job: MatchmakingJob): Promise<Matchmaking> {
  const { onProgress } = job;
  const folder = await mkdtemp(join(tmpdir(), "soak-agents-"));
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => rm(folder, { recursive: true }));
  const ledger = new Ledger();
  const fleet = cleanUp.use(await Fleet.start(ledger));
  const doomed = fleet.addCrowd("doomed", typescript, doomedAgents);
  const suspended = fleet.addCrowd("suspended", typescript, suspendedAgents);
  const main = job.typescript - doomedAgents - suspendedAgents;
  fleet.addCrowd("typescript", typescript, main);
  let expected = job.typescript;
  const without: string[] = [];
  for (const found of [python(), go(folder)]) {
    const agents = job[found.language === "go" ? "go" : "python"];
    if ("reason" in found) {
      without.push(`without agents in ${found.language}: ${found.reason}`);
    } else {
      fleet.addCrowd(found.language, found, agents);
      expected += agents;
    }
  }
  const recoveries: Recovery[] = [];
  while (ledger.agents < expected) {
    await setTimeout(50);
  }
  if ((await ledger.allBegan(0, Date.now() + patienceMs)) === undefined) {
    throw new Error(`these agents found no match: ${ledger.missing(0).join(", ")}`);
  }
  for (const fault of faults(doomed, suspended)) {
    if (job.quick && fault.isQuick !== true) {
      continue;
    }
    await setTimeout(calmMs);
    onProgress(fault.name);
    ledger.during(fault.name);
    const beganMs = Date.now();
    const { sinceMs, note, mend } = await fault.provoke(fleet, (permits) =>
      ledger.during(fault.name, permits),
    );
    const backMs = await ledger.allBegan(sinceMs, sinceMs + patienceMs);
    const allMs = backMs === undefined ? undefined : backMs - sinceMs;
    const pauseMs = ledger.longestPauseMs(beganMs, backMs ?? Date.now());
    const missing = backMs === undefined ? `never again: ${ledger.missing(sinceMs)}` : "";
    const notes = [note, ledger.explainedBy(fault.name), missing].filter((text) => text);
    const { name, stopsService = false } = fault;
    recoveries.push({ fault: name, stopsService, allMs, pauseMs, note: notes.join("; ") });
    await mend?.();
  }
  ledger.during("after the faults");
  const agents = ledger.agents;
  await ledger.allBegan(Date.now(), Date.now() + patienceMs);
  for (const { actor } of fleet.crowds) {
    actor.finish();
  }
  const ended = Promise.all(fleet.crowds.map(({ actor }) => actor.ended));
  await Promise.race([ended, setTimeout(patienceMs, undefined, { ref: false })]);
  ledger.close();
  return { ledger, agents, recoveries, without, left: await leftovers(fleet) };
}

const settleMs = 60_000;

/** Lists what remains after all agents have left and the matchmakers had time to clean up. */
async function leftovers(fleet: Fleet): Promise<string[]> {
  const admin = fleet.admin();
  for (const end = performance.now() + settleMs; ; await setTimeout(200)) {
    const { servers } = await admin.listServers({});
    const serving = servers.filter(({ state }) => state === ServerState.SERVING);
    const here = new Set(serving.map(({ id }) => id));
    const { matches } = await admin.listMatches({ pageSize: 1_000 });
    const { tickets } = await admin.listTickets({ pageSize: 1_000, state: TicketState.WAITING });
    const left = [
      ...tickets.filter(({ profile }) => profile === "").map(({ id }) => `ticket ${id}`),
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
