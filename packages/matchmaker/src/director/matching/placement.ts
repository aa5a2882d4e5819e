// SPDX-License-Identifier: Apache-2.0

import type { ServerRecord } from "../../model/model.ts";
import { countBefore } from "../../model/sorted-list.ts";
import { hasLabels } from "../../profiles/labels.ts";
import type { PlacementPolicy, Profile } from "../../profiles/profile.ts";
import type { Replica } from "../../replica/replica.ts";
import type { MatchIndex } from "../indexes/match-index.ts";

/** A server with its remaining room. */
interface Room {
  readonly server: ServerRecord;
  worlds: number;
  seats: number;
  /** Worlds placed on the server in this tick. */
  taken: number;
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
 * - `spread-worlds`: the server that uses the smallest share of its `maxWorlds`;
 * - `spread-agents`: the server that uses the smallest share of its `maxAgents`;
 * - `spread-load`: the server with the lowest load.
 */
export class Placement {
  readonly #replica: Replica;
  readonly #matchIndex: MatchIndex;
  /** Servers that serve; undefined until the first world is to be placed. */
  #rooms: readonly Room[] | undefined;
  /** Estimated loads of the servers that report a load, by id. */
  readonly #loads = new Map<string, EstimatedLoad>();
  readonly #isUsable: (serverId: string, worldType: string) => boolean;
  /** Servers with room that have a world type and labels, by both, in the order of `byRoom`. */
  readonly #usable = new Map<string, Room[]>();

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
    return new Set(this.#roomsFor(placed).map(({ server }) => regionOf(server)));
  }

  /** Returns the number of worlds of a profile that fit, in all regions or in the given one. */
  room(placed: Placed, region?: string): number {
    let room = 0;
    for (const { server, worlds, seats } of this.#roomsFor(placed)) {
      if (isIn(server, region)) {
        room += Math.min(worlds, Math.floor(seats / placed.seats));
      }
    }
    return room;
  }

  /**
   * Claims room for a world of a profile, in any region or in the given one. Returns the server, or undefined
   * if no server has room.
   */
  take(placed: Placed, region?: string): ServerRecord | undefined {
    const { seats, placement } = placed;
    const rooms = this.#roomsFor(placed);
    const fits = (room: Room): boolean => room.seats >= seats && isIn(room.server, region);
    let best: Room | undefined;
    if (placement === "packed") {
      best = rooms.find(fits);
    } else {
      let most = Number.NEGATIVE_INFINITY;
      for (const room of rooms) {
        const free = fits(room) ? this.#freeOf(room, placement) : Number.NEGATIVE_INFINITY;
        if (free > most) {
          best = room;
          most = free;
        }
      }
    }
    if (best === undefined) {
      return undefined;
    }
    best.worlds -= 1;
    best.seats -= seats;
    best.taken += 1;
    for (const usable of this.#usable.values()) {
      update(usable, best);
    }
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
    const known = this.#loads.get(id);
    const reported = this.#replica.get("report", id)?.value.load;
    if (known !== undefined || reported === undefined) {
      return known;
    }
    const worlds = [...this.#matchIndex.worldsOf.get(id).values()];
    const sinceMs = this.#replica.now() - settlingMs;
    const settling = worlds.filter(
      ({ state, openedMs }) => state === "creating" || openedMs > sinceMs,
    ).length;
    const settled = worlds.length - settling + this.#matchIndex.unrecordedLoadOf(id).worlds;
    const perWorld = Math.max(1 / maxWorlds, settled === 0 ? 0 : reported / settled);
    const estimate = { load: reported + settling * perWorld, perWorld };
    this.#loads.set(id, estimate);
    return estimate;
  }

  #findRooms(): readonly Room[] {
    const rooms: Room[] = [];
    for (const { value: server } of this.#replica.table("server").values()) {
      if (server.state === "serving") {
        const load = this.#matchIndex.loadOf(server.id);
        const unrecorded = this.#matchIndex.unrecordedLoadOf(server.id);
        const worlds = server.maxWorlds - load.worlds - unrecorded.worlds;
        const seats = server.maxAgents - load.seats - unrecorded.seats;
        rooms.push({ server, worlds, seats, taken: 0 });
      }
    }
    return rooms;
  }

  #roomsFor({ worldType, serverLabels }: Placed): Room[] {
    const key = JSON.stringify([worldType, serverLabels]);
    const known = this.#usable.get(key);
    if (known !== undefined) {
      return known;
    }
    this.#rooms ??= this.#findRooms();
    const usable = this.#rooms
      .filter(
        (room) =>
          hasRoom(room) &&
          room.server.worldTypes.includes(worldType) &&
          hasLabels(room.server, serverLabels) &&
          this.#isUsable(room.server.id, worldType),
      )
      .sort(byRoom);
    this.#usable.set(key, usable);
    return usable;
  }
}

/** Returns the region of a server; empty if it has none. */
export function regionOf({ region = "" }: ServerRecord): string {
  return region;
}

function isIn(server: ServerRecord, region: string | undefined): boolean {
  return region === undefined || regionOf(server) === region;
}

function hasRoom({ worlds, seats }: Room): boolean {
  return worlds > 0 && seats > 0;
}

/**
 * Compares two servers: the one with the fewest free seats is first. Among equals, allocated servers are first,
 * because they save an allocation; then the one with the lowest id.
 */
function byRoom(a: Room, b: Room): number {
  const rank = ({ server }: Room): number => (server.allocated === true ? 0 : 1);
  return a.seats - b.seats || rank(a) - rank(b) || (a.server.id < b.server.id ? -1 : 1);
}

/** Moves a server that now has fewer free seats to its new place, or removes a server without room. */
function update(rooms: Room[], room: Room): void {
  const at = rooms.indexOf(room);
  if (at >= 0) {
    rooms.splice(at, 1);
    if (hasRoom(room)) {
      rooms.splice(
        countBefore(rooms, (other) => byRoom(other, room) < 0),
        0,
        room,
      );
    }
  }
}
