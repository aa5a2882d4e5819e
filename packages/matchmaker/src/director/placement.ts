// SPDX-License-Identifier: Apache-2.0
import type { ServerRecord } from "../model.ts";
import type { Replica } from "../replica.ts";
import type { MatchIndex } from "./match-index.ts";

/** A server with the room that it has left. */
interface Room {
  readonly server: ServerRecord;
  worlds: number;
  seats: number;
}

/** Where worlds go: on the fullest server that fits, so that the others can be let go. */
export class Placement {
  readonly #rooms: Room[] = [];
  readonly #isUsable: (serverId: string, worldType: string) => boolean;

  /** @param isUsable Whether a server may have a world of a type now. */
  constructor(
    replica: Replica,
    matchIndex: MatchIndex,
    isUsable: (serverId: string, worldType: string) => boolean,
  ) {
    this.#isUsable = isUsable;
    for (const { value: server } of replica.table("server").values()) {
      if (server.state !== "serving") {
        continue;
      }
      const load = matchIndex.loadOf(server.id);
      const worlds = server.maxWorlds - load.worlds;
      const seats = server.maxAgents - load.seats;
      if (worlds > 0 && seats > 0) {
        this.#rooms.push({ server, worlds, seats });
      }
    }
  }

  /** How many worlds of so many seats there is room for. */
  room(worldType: string, seats: number): number {
    let room = 0;
    for (const candidate of this.#rooms) {
      if (this.#fits(candidate, worldType, seats)) {
        room += Math.min(candidate.worlds, Math.floor(candidate.seats / seats));
      }
    }
    return room;
  }

  /** Takes room for a world; undefined when there is none. */
  take(worldType: string, seats: number): ServerRecord | undefined {
    let best: Room | undefined;
    for (const candidate of this.#rooms) {
      if (!this.#fits(candidate, worldType, seats)) {
        continue;
      }
      if (best === undefined || isFuller(candidate, best)) {
        best = candidate;
      }
    }
    if (best === undefined) {
      return undefined;
    }
    best.worlds -= 1;
    best.seats -= seats;
    return best.server;
  }

  #fits({ server, worlds, seats: free }: Room, worldType: string, seats: number): boolean {
    return (
      worlds > 0 &&
      free >= seats &&
      server.worldTypes.includes(worldType) &&
      this.#isUsable(server.id, worldType)
    );
  }
}

function isFuller(a: Room, b: Room): boolean {
  return a.seats < b.seats || (a.seats === b.seats && a.server.id < b.server.id);
}
