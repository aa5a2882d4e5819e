// SPDX-License-Identifier: Apache-2.0
// Measures the matchmaker that it resolves: node main.js JOB. It imports nothing else of this package, so that it
// can be copied into the checkout of an earlier commit.
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type MatchmakerEvent, type Store, serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import {
  callAll,
  groupSize,
  instantServers,
  openStore,
  profileOf,
  registerServers,
  settings,
  startFleet,
} from "./fleet.ts";
import type { Figures, Job } from "./job.ts";
import { Probe, quantileOf, startUsage } from "./probe.ts";

const waitMs = 10_000;

/** Collects the events of a matchmaker. */
class Observer {
  readonly waits: number[] = [];
  readonly assignedAt: number[] = [];
  readonly ticks: number[] = [];
  /** Resolves when the given number of tickets is assigned. */
  readonly all: Promise<void>;
  readonly leads: Promise<void>;
  readonly #count: number;
  #beganMs = 0;
  #finish = (): void => {};
  #lead = (): void => {};

  constructor(count: number) {
    this.#count = count;
    this.all = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.leads = new Promise((resolve) => {
      this.#lead = resolve;
    });
  }

  readonly onEvent = (event: MatchmakerEvent): void => {
    if (event.kind === "ticked") {
      if (performance.now() - event.tookMs >= this.#beganMs) {
        this.ticks.push(event.tookMs);
      }
      this.#lead();
    } else if (event.kind === "assigned") {
      const now = performance.now();
      this.waits.push(...event.waitedMs);
      this.assignedAt.push(...event.waitedMs.map(() => now));
      if (this.waits.length >= this.#count) {
        this.#finish();
      }
    }
  };

  /** Forgets the ticks so far, also the one in progress: it has waited until all tickets were created. */
  begin(): void {
    this.#beganMs = performance.now();
    this.ticks.length = 0;
  }

  get tickFigures(): Pick<Figures, "tickMs" | "largestTickMs"> {
    return { tickMs: quantileOf(this.ticks, 0.5), largestTickMs: quantileOf(this.ticks, 1) };
  }
}

async function assign(job: Job, store: Store): Promise<Figures> {
  const { tickets, kind, perSecond } = job;
  const observer = new Observer(tickets);
  const { matchmaker, frontend, register } = await startFleet(job, store, observer.onEvent);
  await using _closing = matchmaker;
  const arrive = (rate?: number): Promise<void> =>
    callAll(
      tickets,
      (number) => frontend.createTicket({ ticketId: `ticket-${number}`, searchFields: {} }),
      rate,
    );
  await (kind === "assign" ? arrive() : register());
  observer.begin();
  const known = kind === "assign" ? "ticket-0" : undefined;
  const probe =
    known === undefined ? undefined : new Probe(() => frontend.getTicket({ ticketId: known }));
  const usage = startUsage();
  const began = performance.now();
  await (kind === "assign" ? register() : arrive(perSecond));
  await observer.all;
  const seconds = ((observer.assignedAt.at(-1) ?? began) - began) / 1_000;
  const { cpuMs } = usage();
  await probe?.stop();
  // For waiting tickets only the time after the servers began to register counts.
  const waits = kind === "assign" ? observer.assignedAt.map((at) => at - began) : observer.waits;
  return {
    ticketsPerSecond: tickets / seconds,
    cpuMicros: (cpuMs * 1_000) / tickets,
    p50Ms: quantileOf(waits, 0.5),
    p99Ms: quantileOf(waits, 0.99),
    getP99Ms: probe && quantileOf(probe.times, 0.99),
    heldMs: probe && quantileOf(probe.held, 1),
    ...observer.tickFigures,
  };
}

async function wait(job: Job, store: Store): Promise<Figures> {
  const observer = new Observer(Number.POSITIVE_INFINITY);
  const { matchmaker, frontend, register } = await startFleet(job, store, observer.onEvent);
  await using _closing = matchmaker;
  const come = (number: number): Promise<unknown> =>
    frontend.createTicket({
      ticketId: `ticket-${number}`,
      searchFields: { doubles: { skill: number } },
    });
  await callAll(job.tickets, come);
  await register();
  await setTimeout(1_000);
  observer.begin();
  const usage = startUsage();
  const probe = new Probe(() => frontend.getTicket({ ticketId: "ticket-0" }));
  const { perSecond = 100 } = job;
  await callAll(
    (perSecond * waitMs) / 1_000,
    async (number) => {
      await frontend.cancelTicket({ ticketId: `ticket-${number + 1}` });
      await come(job.tickets + number);
    },
    perSecond,
  );
  const { cpuMs, wallMs } = usage();
  await probe.stop();
  return {
    ...observer.tickFigures,
    getP99Ms: quantileOf(probe.times, 0.99),
    heldMs: quantileOf(probe.held, 1),
    busy: cpuMs / wallMs,
  };
}

async function restart(job: Job, store: Store): Promise<Figures> {
  const first = await startFleet(job, store, () => {});
  await callAll(job.tickets, (number) => first.frontend.createTicket({ ticketId: `t-${number}` }));
  await first.matchmaker.close();
  const observer = new Observer(Number.POSITIVE_INFINITY);
  const usage = startUsage();
  const again = await startFleet(job, await openStore(job), observer.onEvent);
  await using _closing = again.matchmaker;
  await observer.leads;
  const { cpuMs, wallMs } = usage();
  return { doneMs: wallMs, cpuMicros: (cpuMs * 1_000) / job.tickets, ...observer.tickFigures };
}

async function watch(job: Job, store: Store): Promise<Figures> {
  const observer = new Observer(job.tickets);
  await using served = await serveMatchmaker({
    store,
    servers: instantServers(),
    profiles: [profileOf(job)],
    settings,
    onEvent: observer.onEvent,
  });
  const program = fileURLToPath(new URL("./watchers.js", import.meta.url));
  const child = fork(program, [served.url, String(job.tickets)]);
  const failed = once(child, "exit").then(([code]) => {
    throw new Error(`watchers: the process ended with code ${code} before its watches did`);
  });
  await Promise.race([once(child, "message"), failed]);
  const usage = startUsage();
  const told = once(child, "message");
  const registry = createClient(RegistryService, createGrpcTransport({ baseUrl: served.url }));
  await registerServers(job, registry);
  const [count] = await Promise.race([told, failed]);
  const { cpuMs, wallMs } = usage();
  if (count !== job.tickets) {
    throw new Error(`watchers: expected ${job.tickets} assignments, received ${count}`);
  }
  return { doneMs: wallMs, cpuMicros: (cpuMs * 1_000) / job.tickets, ...observer.tickFigures };
}

const kinds = { assign, arrive: assign, wait, restart, watch } as const;
const job: Job = JSON.parse(process.argv[2] ?? "{}");
if (job.kind !== "restart" && job.tickets > groupSize) {
  // Compiles the code first.
  const small = { ...job, redis: undefined, tickets: 400, servers: 4 };
  if (job.kind !== "wait") {
    await assign({ ...small, kind: "assign" }, await openStore(small));
  }
}
const figures = await kinds[job.kind](job, await openStore(job));
const peakMb = process.resourceUsage().maxRSS / 1_024;
process.stdout.write(`${JSON.stringify({ ...figures, peakMb })}\n`);
process.exit();
