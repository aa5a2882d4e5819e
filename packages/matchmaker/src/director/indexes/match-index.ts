// SPDX-License-Identifier: Apache-2.0
import { messageOf, toError } from "@dm-env-rpc/transport/internal";
import type { WaitingTicket } from "../../functions/match-function.ts";
import type { MatchFunctions } from "../../functions/profile-function.ts";
import type { Emit } from "../../model/events.ts";
import { hasEnded, type Report, type Ticket, type World } from "../../model/model.ts";
import { type Profile, profileMessage, profileOf } from "../../profiles/profile.ts";
import type { Replica, ReplicaChange } from "../../replica/replica.ts";
import { AgeOrder } from "./age-order.ts";
import { DueQueue } from "./due-queue.ts";
import { WorldGroups } from "./world-groups.ts";

/** Load of a server. */
export interface Load {
  worlds: number;
  seats: number;
}

/** The waiting tickets of a pool. */
interface PoolTickets {
  readonly order: AgeOrder;
  /** Tickets that the pool's filters will accept once the tickets have waited longer. */
  readonly later: DueQueue;
}

/** Indexes of the replica for the director. Each change of the replica updates the indexes. */
export class MatchIndex {
  readonly profiles: Map<string, Profile> = new Map();
  /** Waiting tickets, by profile and pool. */
  readonly #pools = new Map<string, Map<string, PoolTickets>>();
  /** Tickets that can be matched. */
  readonly waiting: Map<string, Ticket> = new Map();
  /** Waiting tickets that are not matched, because their watch has ended. */
  readonly away: Map<string, Ticket> = new Map();
  /** Grows with each change of a waiting ticket or of a profile. */
  ticketRevision = 0;
  /** Ended tickets, in the order in which the replica learned of their ends. */
  readonly ended: Map<string, Ticket> = new Map();
  /** Worlds by server. */
  readonly worldsOf: WorldGroups = new WorldGroups();
  readonly #worldByName = new Map<string, string>();
  readonly #loads = new Map<string, Load>();
  /** Agents of the reported worlds that have no record, by server and name of the world. */
  readonly #unrecorded = new Map<string, Map<string, number>>();
  /** Worlds without a match that are open or being created, by profile. */
  readonly spares: WorldGroups = new WorldGroups();
  /** Worlds to create, by server. The worlds of a server are in the order in which they were placed. */
  readonly creatingOn: WorldGroups = new WorldGroups();
  /** Worlds to destroy. */
  readonly destroying: Map<string, World> = new Map();
  /** Matches with open seats. */
  readonly vacant: Set<string> = new Set();
  /** Matches in which an agent with a seat cancelled its ticket. `Suspicion.check` empties this set. */
  readonly abandoned: Set<string> = new Set();
  /** Servers whose last report is not processed yet. */
  readonly reported: Set<string> = new Set();
  readonly #functions: MatchFunctions;
  readonly #emit: Emit;
  readonly #now: () => number;
  readonly #stop: () => void;

  constructor(replica: Replica, functions: MatchFunctions, emit: Emit) {
    this.#functions = functions;
    this.#emit = emit;
    this.#now = () => replica.now();
    for (const kind of ["profile", "world", "match", "ticket", "report"] as const) {
      for (const [id, { value }] of replica.table(kind)) {
        this.#onChange({ kind, id, before: undefined, after: value } as ReplicaChange);
      }
    }
    this.#stop = replica.onChange((change) => this.#onChange(change));
  }

  close(): void {
    this.#stop();
  }

  /** Returns the load of a server's recorded worlds. */
  loadOf(serverId: string): Readonly<Load> {
    return this.#loads.get(serverId) ?? { worlds: 0, seats: 0 };
  }

  /**
   * Returns the load of the worlds that had no record when their server last reported them, and that still have
   * none. Each of their agents counts as a seat.
   */
  unrecordedLoadOf(serverId: string): Readonly<Load> {
    let worlds = 0;
    let empty = 0;
    let seats = 0;
    for (const agents of this.#unrecorded.get(serverId)?.values() ?? []) {
      worlds += 1;
      empty += agents === 0 ? 1 : 0;
      seats += agents;
    }
    // An empty world may be one that is being created: its record does not have its name yet, and is counted already.
    return { worlds: worlds - Math.min(empty, this.creatingOn.get(serverId).size), seats };
  }

  worldNamed(serverId: string, name: string): string | undefined {
    return this.#worldByName.get(nameKey(serverId, name));
  }

  /**
   * Returns the waiting tickets of each pool of a profile, in matching order (by priority, then age). Returns
   * undefined if no pool has a ticket.
   */
  poolsOf(profile: string): ReadonlyMap<string, readonly WaitingTicket[]> | undefined {
    const pools = this.#pools.get(profile);
    if (pools === undefined) {
      return undefined;
    }
    let isEmpty = true;
    const sorted = new Map<string, readonly WaitingTicket[]>();
    for (const [name, { order, later }] of pools) {
      for (const id of later.takeDue(this.#now())) {
        const ticket = this.waiting.get(id);
        if (ticket !== undefined) {
          order.add(ticket);
        }
      }
      if (order.size > 0) {
        isEmpty = false;
      }
      sorted.set(name, order.list);
    }
    return isEmpty ? undefined : sorted;
  }

  /** Returns the order of each pool that contains a waiting ticket, with the name of the pool's profile. */
  ordersWith(ticketId: string): (readonly [profile: string, order: AgeOrder])[] {
    return [...this.#pools].flatMap(([profile, pools]) =>
      [...pools.values()]
        .filter(({ order }) => order.has(ticketId))
        .map(({ order }) => [profile, order] as const),
    );
  }

  /** Returns true if a ticket is in a pool of a profile. */
  isInPools(profile: string, ticketId: string): boolean {
    const pools = [...(this.#pools.get(profile)?.values() ?? [])];
    return pools.some(({ order }) => order.has(ticketId));
  }

  #onChange(change: ReplicaChange): void {
    switch (change.kind) {
      case "ticket":
        this.#onTicket(change.id, change.before, change.after);
        break;
      case "world":
        if (change.before !== undefined) {
          this.#dropWorld(change.before);
        }
        if (change.after !== undefined) {
          this.#addWorld(change.after);
        }
        break;
      case "match":
        if ((change.after?.vacancies.length ?? 0) > 0) {
          this.vacant.add(change.id);
        } else {
          this.vacant.delete(change.id);
        }
        if (change.after === undefined) {
          this.abandoned.delete(change.id);
        }
        break;
      case "report":
        this.#onReport(change.id, change.after);
        break;
      case "profile":
        this.#onProfile(change.id, change.after?.message);
        break;
      case "server":
      case "secret":
        break;
    }
  }

  #onReport(serverId: string, report: Report | undefined): void {
    this.#unrecorded.delete(serverId);
    if (report === undefined) {
      this.reported.delete(serverId);
      return;
    }
    this.reported.add(serverId);
    const unrecorded = report.worlds.filter(
      ({ name }) => this.worldNamed(serverId, name) === undefined,
    );
    if (unrecorded.length > 0) {
      // A joining agent has a ticket in the world, but `agents` does not count it yet.
      this.#unrecorded.set(
        serverId,
        new Map(
          unrecorded.map(({ name, agents, tickets }) => [name, Math.max(agents, tickets.length)]),
        ),
      );
    }
  }

  #onTicket(id: string, before: Ticket | undefined, after: Ticket | undefined): void {
    const waited = before?.state === "waiting" && before.away !== true;
    const waits = after?.state === "waiting" && after.away !== true;
    const hadSeat = before?.state === "assigned" || before?.state === "joined";
    if (hadSeat && after?.state === "cancelled" && before.matchId !== undefined) {
      this.abandoned.add(before.matchId);
    }
    if (waited || waits) {
      this.ticketRevision += 1;
    }
    if (waited) {
      this.waiting.delete(id);
      for (const pools of this.#pools.values()) {
        for (const { order, later } of pools.values()) {
          order.delete(id);
          later.delete(id);
        }
      }
    }
    if (waits) {
      this.waiting.set(id, after);
      for (const profile of this.profiles.values()) {
        this.#sort(profile, after);
      }
    }
    if (after?.state === "waiting" && after.away === true) {
      this.away.set(id, after);
    } else {
      this.away.delete(id);
    }
    if (after !== undefined && hasEnded(after)) {
      this.ended.set(id, after);
    } else {
      this.ended.delete(id);
    }
  }

  #sort(profile: Profile, ticket: Ticket): void {
    if (ticket.profile !== "" && ticket.profile !== profile.name) {
      return;
    }
    const pools = this.#pools.get(profile.name);
    for (const { name, fitsAfterMs } of profile.pools) {
      const dueMs = ticket.createdMs + fitsAfterMs(ticket.search);
      const pool = pools?.get(name);
      if (dueMs <= Math.max(this.#now(), ticket.createdMs)) {
        pool?.order.add(ticket);
      } else if (dueMs < Number.POSITIVE_INFINITY) {
        pool?.later.set(ticket.id, dueMs);
      }
    }
  }

  #onProfile(name: string, message: string | undefined): void {
    this.ticketRevision += 1;
    this.profiles.delete(name);
    this.#pools.delete(name);
    if (message === undefined) {
      return;
    }
    try {
      const profile = profileOf(profileMessage({ name, message }), this.#functions);
      this.profiles.set(name, profile);
      this.#pools.set(
        name,
        new Map(
          profile.pools.map(({ name }) => [name, { order: new AgeOrder(), later: new DueQueue() }]),
        ),
      );
      for (const ticket of this.waiting.values()) {
        this.#sort(profile, ticket);
      }
    } catch (error) {
      // The profile may need a function that only another matchmaker has.
      const cause = toError(error);
      this.#emit({
        kind: "bad-proposal",
        profile: name,
        error: new Error(
          `profile "${name}" cannot be used by this matchmaker: ${messageOf(cause)}`,
          { cause },
        ),
      });
    }
  }

  #addWorld(world: World): void {
    const { id, serverId, name } = world;
    this.worldsOf.add(serverId, world);
    if (world.state === "creating") {
      this.creatingOn.add(serverId, world);
    } else if (world.state === "destroying") {
      this.destroying.set(id, world);
    }
    const load = this.loadOf(serverId);
    this.#loads.set(serverId, { worlds: load.worlds + 1, seats: load.seats + world.seats });
    if (name !== undefined) {
      this.#worldByName.set(nameKey(serverId, name), id);
      this.#unrecorded.get(serverId)?.delete(name);
    }
    if (world.matchId === undefined && (world.state === "open" || world.state === "creating")) {
      this.spares.add(world.profile, world);
    }
  }

  #dropWorld(world: World): void {
    const { id, serverId, name } = world;
    this.worldsOf.delete(serverId, world);
    this.creatingOn.delete(serverId, world);
    this.destroying.delete(id);
    const load = this.loadOf(serverId);
    if (load.worlds <= 1) {
      this.#loads.delete(serverId);
    } else {
      this.#loads.set(serverId, { worlds: load.worlds - 1, seats: load.seats - world.seats });
    }
    // Another world may have this name by now.
    const key = nameKey(serverId, name ?? "");
    if (this.#worldByName.get(key) === id) {
      this.#worldByName.delete(key);
    }
    this.spares.delete(world.profile, world);
  }
}

function nameKey(serverId: string, name: string): string {
  return `${serverId}\n${name}`;
}
