// SPDX-License-Identifier: Apache-2.0
import { pause, toError } from "@dm-env-rpc/transport/internal";

import { isStoreError, type Store } from "../store/store.ts";
import type { DirectorContext } from "./context.ts";
import { keepTickets } from "./housekeeping.ts";
import { Leadership } from "./leadership.ts";
import { fillVacancies } from "./matching/backfill.ts";
import { MatchRuns } from "./matching/match-runs.ts";
import { makeMatches } from "./matching/matching.ts";
import { Placement } from "./matching/placement.ts";
import { Allocations } from "./servers/allocations.ts";
import { takeReport } from "./servers/reports.ts";
import { ServerWatch } from "./servers/server-watch.ts";
import { Suspicion } from "./servers/suspicion.ts";
import { Slice } from "./slice.ts";
import { startCreates } from "./worlds/create-world.ts";
import { startDestroys } from "./worlds/end-world.ts";
import { Orphans } from "./worlds/orphans.ts";
import { followPolicies } from "./worlds/policies.ts";
import { precreate } from "./worlds/precreate.ts";
import { serverKey, typeKey, WorldTasks } from "./worlds/world-tasks.ts";

/** Options of a director: its context, except for the parts that the director creates itself. */
export type DirectorOptions = Omit<
  DirectorContext,
  "lease" | "wake" | "isSuspect" | "suspect" | "allocate" | "reportedWorlds"
> & {
  readonly store: Store;
};

/**
 * The loop that makes matches while this matchmaker leads: fetch, propose, evaluate, place, create,
 * assign. The loop also manages worlds and servers. Each of its changes is a commit under the leader's
 * lease. If this director dies, the director of another matchmaker can continue from the store.
 */
export class Director {
  readonly #context: DirectorContext;
  readonly #store: Store;
  readonly #leadership: Leadership;
  readonly #tasks: WorldTasks;
  readonly #watch: ServerWatch;
  readonly #suspicion: Suspicion;
  readonly #allocations: Allocations;
  readonly #orphans: Orphans;
  readonly #runs: MatchRuns;
  /** Divides the steps of the current tick. */
  #slice: Slice;
  #isLeading = false;
  #keptMs = Number.NEGATIVE_INFINITY;
  #wake: (() => void) | undefined;
  #isDue = true;

  constructor({ store, ...shared }: DirectorOptions) {
    const { time, settings, emit } = shared;
    this.#store = store;
    this.#leadership = new Leadership(store, time, settings.leaderLeaseMs);
    this.#context = {
      ...shared,
      reportedWorlds: new Set(),
      lease: () => this.#leadership.lease,
      isSuspect: (serverId) => this.#suspicion.isSuspect(serverId),
      suspect: (serverId) => this.#suspicion.suspect(serverId),
      allocate: (server) => this.#allocations.allocate(server),
      wake: () => this.wake(),
    };
    this.#tasks = new WorldTasks(time, settings.cooldownMs, emit);
    this.#suspicion = new Suspicion(this.#context, this.#tasks);
    this.#allocations = new Allocations(this.#context, this.#tasks);
    this.#watch = new ServerWatch(this.#context);
    this.#orphans = new Orphans(this.#context, this.#tasks);
    this.#runs = new MatchRuns(this.#context, this.#tasks);
    this.#slice = new Slice(time);
  }

  get isLeading(): boolean {
    return this.#isLeading && this.#leadership.isHeld;
  }

  /** Requests a tick soon. */
  wake(): void {
    this.#isDue = true;
    this.#wake?.();
  }

  /** Ticks until the signal aborts, then releases the leader's lease. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { time, settings } = this.#context;
    const unsubscribe = this.#store.onChange(() => this.wake());
    const renewing = this.#leadership.keep(signal);
    while (!signal.aborted) {
      this.#isDue = false;
      await this.tick();
      await pause(time, settings.minTickMs, signal);
      if (this.#isDue || signal.aborted) {
        continue;
      }
      const nap = new AbortController();
      this.#wake = () => nap.abort();
      await pause(time, settings.tickMs, AbortSignal.any([signal, nap.signal]));
      this.#wake = undefined;
    }
    unsubscribe();
    this.stop();
    await renewing;
    await this.#tasks.settled();
    await this.#leadership.release().catch(() => {});
    this.#follow();
  }

  /** Ticks once: acquires or renews the leader's lease, and runs the steps of the loop. Never rejects. */
  async tick(): Promise<void> {
    const { emit, time, matchIndex } = this.#context;
    const beganMs = time.now();
    try {
      if (!(await this.#leadership.hold())) {
        this.#follow();
        return;
      }
      await this.#context.replica.sync();
      if (!this.#isLeading) {
        this.#lead();
      }
      await this.#runSteps();
      emit({ kind: "ticked", tookMs: time.now() - beganMs, waiting: matchIndex.waiting.size });
    } catch (error) {
      if (isStoreError(error, "fenced")) {
        this.#leadership.lose();
        this.#follow();
        this.wake();
      } else if (isStoreError(error)) {
        // Servers do not count as silent while the store is unavailable.
        this.#watch.reset();
        if (!this.#leadership.isHeld) {
          this.#follow();
        }
        emit({ kind: "store-failed", error });
      } else {
        emit({ kind: "step-failed", step: "tick", error: toError(error) });
      }
    }
  }

  /** Abandons running match functions. From now on, a create that succeeds does not start the next create. */
  stop(): void {
    this.#runs.reset();
    this.#tasks.stop();
  }

  /** Resolves when no call to a server is in flight. */
  async settled(): Promise<void> {
    await this.#tasks.settled();
  }

  async #runSteps(): Promise<void> {
    const { matchIndex, time, settings, replica } = this.#context;
    this.#slice = new Slice(time);
    const isTimeToKeep = time.now() - this.#keptMs >= settings.tickMs;
    for (const serverId of [...matchIndex.reported]) {
      await this.#takeReport(serverId);
    }
    if (isTimeToKeep) {
      this.#keptMs = time.now();
      await this.#step("servers", () => this.#watch.check());
      await this.#step("tickets", () => keepTickets(this.#context));
      for (const serverId of [...replica.table("server").keys()]) {
        await this.#step(`policies of ${serverId}`, () =>
          followPolicies(this.#context, this.#tasks, serverId),
        );
      }
      await this.#step("orphaned worlds", () => this.#orphans.check());
      this.#tasks.sweep();
      this.#suspicion.sweep();
      this.#sweepWorlds();
    }
    this.#suspicion.check();
    await this.#step("open seats", () => fillVacancies(this.#context));
    const placement = new Placement(
      replica,
      matchIndex,
      (serverId, worldType) =>
        !this.#suspicion.isSuspect(serverId) &&
        !this.#tasks.isCooling(serverKey(serverId)) &&
        !this.#tasks.isCooling(typeKey(serverId, worldType)),
    );
    await this.#step("matches", () =>
      makeMatches(this.#context, placement, this.#runs, this.#tasks),
    );
    await this.#step("spare worlds", () => precreate(this.#context, placement, this.#tasks));
    startCreates(this.#context, this.#tasks);
    startDestroys(this.#context, this.#tasks);
  }

  #sweepWorlds(): void {
    const { replica, reportedWorlds } = this.#context;
    for (const id of reportedWorlds) {
      if (replica.get("world", id) === undefined) {
        reportedWorlds.delete(id);
      }
    }
  }

  async #takeReport(serverId: string): Promise<void> {
    const { reported } = this.#context.matchIndex;
    reported.delete(serverId);
    try {
      await this.#step(`report of ${serverId}`, () => takeReport(this.#context, serverId));
      await this.#step(`policies of ${serverId}`, () =>
        followPolicies(this.#context, this.#tasks, serverId),
      );
    } catch (error) {
      reported.add(serverId);
      throw error;
    }
  }

  /** Runs one step. If the step throws any error except a StoreError, the other steps still run. */
  async #step(step: string, run: () => Promise<void>): Promise<void> {
    await this.#slice.next();
    try {
      await run();
    } catch (error) {
      if (isStoreError(error)) {
        throw error;
      }
      this.#context.emit({ kind: "step-failed", step, error: toError(error) });
    }
  }

  #lead(): void {
    this.#isLeading = true;
    this.#watch.reset();
    this.#orphans.reset();
    this.#context.reportedWorlds.clear();
    // The previous leader may not have processed all reports.
    for (const id of this.#context.replica.table("report").keys()) {
      this.#context.matchIndex.reported.add(id);
    }
    this.#context.emit({ kind: "leading" });
  }

  #follow(): void {
    if (!this.#isLeading) {
      return;
    }
    this.#isLeading = false;
    this.#runs.reset();
    this.#context.emit({ kind: "following" });
  }
}
