// SPDX-License-Identifier: Apache-2.0
import { hasLabels } from "../../labels.ts";
import type { ServerRecord } from "../../model.ts";
import type { PlacementPolicy, Profile } from "../../profile.ts";
import type { Replica } from "../../replica.ts";
import type { MatchIndex } from "../indexes/match-index.ts";

/** A server with its remaining room. */
interface Room {
  readonly server: ServerRecord;
  worlds: number;
  seats: number;
  /** Worlds placed on the server in this tick. */
  taken: number;
}

/** Servers with room that have a world type and labels. Servers with the fewest free seats are first. */
interface UsableRooms {
  readonly rooms: Room[];
  /** Value of `Placement.#placed` at the last sort. If `#placed` is greater now, the rooms must be sorted again. */
  placed: number;
}

/** Estimated load of a server. */
interface EstimatedLoad {
  /** Load before this tick. */
  readonly load: number;
  /** Estimated load of each further world. */
  readonly perWorld: number;
}

/** Time after the start of a world until the server's load, as reported, includes the world. */
const settlingMs = 10_000;

/** Properties of a profile that decide where its worlds are placed. */
export type Placed = Pick<Profile, "worldType" | "seats" | "placement" | "serverLabels">;

/**
 * Places the worlds of one tick on servers with room. The profile's policy chooses the server of a world:
 *
 * - `packed`: the server with the fewest free seats, so that other servers become empty and can be shut down;
 * - `spread-worlds`: the server with the greatest share of its worlds free;
 * - `spread-agents`: the server with the greatest share of its seats free;
 * - `spread-load`: the server with the lowest load.
 */
export class Placement {
  readonly #replica: Replica;
  readonly #matchIndex: MatchIndex;
  /** Servers with room; undefined until the first world is to be placed. */
  #rooms: readonly Room[] | undefined;
  /** Estimated loads of servers, by id; undefined for a server that reports no load. */
  readonly #loads = new Map<string, EstimatedLoad | undefined>();
  readonly #isUsable: (serverId: string, worldType: string) => boolean;
  /** Usable rooms by world type and labels. */
  readonly #usable = new Map<string, UsableRooms>();
  /** Worlds placed in this tick. */
  #placed = 0;

  /** @param isUsable Returns true if a server may now get a world of a type. */
  constructor(
    replica: Replica,
    matchIndex: MatchIndex,
    isUsable: (serverId: string, worldType: string) => boolean,
  ) {
    this.#replica = replica;
    this.#matchIndex = matchIndex;
    this.#isUsable = isUsable;
  }

  /** Returns the regions that worlds of a profile can be placed in. */
  regionsFor(placed: Placed): Set<string> {
    return new Set(this.#roomsFor(placed).rooms.map(({ server }) => server.region ?? ""));
  }

  /** Returns the number of worlds of a profile that fit, in all regions or in the given one. */
  room(placed: Placed, region?: string): number {
    let room = 0;
    for (const candidate of this.#roomsFor(placed).rooms) {
      if (!isIn(candidate, region)) {
        continue;
      }
      room += Math.min(candidate.worlds, Math.floor(candidate.seats / placed.seats));
    }
    return room;
  }

  /**
   * Claims room for a world of a profile, in any region or in the given one. Returns the server, or undefined
   * if no server has room.
   */
  take(placed: Placed, region?: string): ServerRecord | undefined {
    const { seats, placement } = placed;
    const usable = this.#roomsFor(placed);
    const { rooms } = usable;
    const fits = (room: Room): boolean =>
      room.worlds > 0 && room.seats >= seats && isIn(room, region);
    let best: Room | undefined;
    if (placement === "packed") {
      best = rooms.find(fits);
    } else {
      for (const room of rooms) {
        if (
          fits(room) &&
          (best === undefined || this.#freeOf(room, placement) > this.#freeOf(best, placement))
        ) {
          best = room;
        }
      }
    }
    if (best === undefined) {
      return undefined;
    }
    best.worlds -= 1;
    best.seats -= seats;
    best.taken += 1;
    this.#sink(rooms, best);
    this.#placed += 1;
    usable.placed = this.#placed;
    return best.server;
  }

  /** Returns the share of a server that is free, as the policy measures it. */
  #freeOf(room: Room, placement: Exclude<PlacementPolicy, "packed">): number {
    const { server, worlds, seats, taken } = room;
    if (placement === "spread-worlds") {
      return worlds / server.maxWorlds;
    }
    const estimate = placement === "spread-load" ? this.#loadOf(server) : undefined;
    return estimate === undefined
      ? seats / server.maxAgents
      : 1 - estimate.load - taken * estimate.perWorld;
  }

  /**
   * Returns the load of a server. The reported load does not yet include worlds that the server got a short
   * time ago. So the load of each recent world is estimated: it is the average load of the server's earlier
   * worlds, and at least `1 / maxWorlds`. Otherwise a burst of matches would be placed on one server.
   */
  #loadOf({ id, maxWorlds }: ServerRecord): EstimatedLoad | undefined {
    if (this.#loads.has(id)) {
      return this.#loads.get(id);
    }
    const reported = this.#replica.get("report", id)?.value.load;
    let estimate: EstimatedLoad | undefined;
    if (reported !== undefined) {
      const worlds = [...(this.#matchIndex.worldsOf.get(id) ?? [])];
      const sinceMs = this.#replica.now() - settlingMs;
      const settling = worlds.filter((worldId) => {
        const world = this.#replica.get("world", worldId)?.value;
        return world !== undefined && (world.state === "creating" || world.openedMs > sinceMs);
      }).length;
      const settled = worlds.length - settling;
      const perWorld = Math.max(1 / maxWorlds, settled === 0 ? 0 : reported / settled);
      estimate = { load: reported + settling * perWorld, perWorld };
    }
    this.#loads.set(id, estimate);
    return estimate;
  }

  /** Moves a server that now has fewer free seats to its new position, or drops a server without room. */
  #sink(rooms: Room[], room: Room): void {
    let at = rooms.indexOf(room);
    if (room.worlds === 0 || room.seats === 0) {
      rooms.splice(at, 1);
      return;
    }
    for (let before = rooms[at - 1]; before !== undefined && before.seats > room.seats; ) {
      rooms[at] = before;
      at -= 1;
      rooms[at] = room;
      before = rooms[at - 1];
    }
  }

  #findRooms(): readonly Room[] {
    const rooms: Room[] = [];
    for (const { value: server } of this.#replica.table("server").values()) {
      if (server.state !== "serving") {
        continue;
      }
      const load = this.#matchIndex.loadOf(server.id);
      const worlds = server.maxWorlds - load.worlds;
      const seats = server.maxAgents - load.seats;
      if (worlds > 0 && seats > 0) {
        rooms.push({ server, worlds, seats, taken: 0 });
      }
    }
    // Among servers with equally many free seats, allocated servers are first: they save an allocation.
    const rank = ({ server }: Room): number => (server.allocated === true ? 0 : 1);
    return rooms.sort(
      (a, b) => a.seats - b.seats || rank(a) - rank(b) || (a.server.id < b.server.id ? -1 : 1),
    );
  }

  #roomsFor({ worldType, serverLabels }: Placed): UsableRooms {
    const key = JSON.stringify([worldType, serverLabels]);
    let usable = this.#usable.get(key);
    if (usable?.placed === this.#placed) {
      return usable;
    }
    this.#rooms ??= this.#findRooms();
    const rooms =
      usable?.rooms ??
      this.#rooms.filter(
        ({ server }) =>
          server.worldTypes.includes(worldType) &&
          hasLabels(server, serverLabels) &&
          this.#isUsable(server.id, worldType),
      );
    // After the last sort, worlds of other types or labels may have been placed on these servers.
    usable = {
      rooms: rooms
        .filter(({ worlds, seats }) => worlds > 0 && seats > 0)
        .sort((a, b) => a.seats - b.seats),
      placed: this.#placed,
    };
    this.#usable.set(key, usable);
    return usable;
  }
}

function isIn({ server }: Room, region: string | undefined): boolean {
  return region === undefined || (server.region ?? "") === region;
}
