// SPDX-License-Identifier: Apache-2.0
import { getEventListeners } from "node:events";
import { setImmediate } from "node:timers/promises";
import { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { startMs } from "../../testing/start-ms.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import { put, Replica, remove } from "../replica/replica.ts";
import { memoryStore } from "../store/memory-store.ts";
import { TicketWatch } from "./ticket-watch.ts";

const everyMs = 1_000;

/** A replica of a store in memory, with watches of its tickets. */
class Watched {
  readonly time: ManualTime = manualTime(startMs);
  readonly replica: Replica = new Replica(memoryStore({ time: this.time }));
  readonly watch: TicketWatch = new TicketWatch(this.replica, this.time, everyMs);

  /** Writes a ticket with a number of attempts, by which a reader tells its states apart. */
  async write(id: string, attempts: number): Promise<void> {
    const value = { ...waitingTicket(id), attempts };
    await this.replica.commit([put("ticket", id, this.replica.get("ticket", id), value)]);
  }

  async delete(id: string): Promise<void> {
    const stored = this.replica.get("ticket", id);
    if (stored === undefined) {
      throw new Error(`a ticket was expected: ${id}`);
    }
    await this.replica.commit([remove("ticket", id, stored)]);
  }

  /** Reads a watch until it ends; each state is added to `received`. */
  read(id: string, signal: AbortSignal = new AbortController().signal, isNews?: () => boolean) {
    const received: number[] = [];
    let hasEnded = false;
    const done = (async () => {
      for await (const { attempts } of this.watch.follow(id, signal, isNews)) {
        received.push(attempts);
      }
      hasEnded = true;
    })();
    return { received, done, hasEnded: () => hasEnded };
  }
}

/** Runs everything that does not wait for a timer. */
async function idle(): Promise<void> {
  await setImmediate();
  await setImmediate();
}

describe("a watch of a ticket", () => {
  it("yields the current state, then each change, and ends when the ticket is deleted", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    await watched.write("other", 50);
    const reader = watched.read("mine");
    await idle();
    expect(reader.received).toEqual([1]);
    await watched.write("mine", 2);
    await idle();
    await watched.write("other", 51);
    await watched.write("mine", 3);
    await idle();
    expect(reader.received).toEqual([1, 2, 3]);
    expect(reader.hasEnded()).toBe(false);
    await watched.delete("mine");
    await reader.done;
    expect(reader.received).toEqual([1, 2, 3]);
  });

  it("of an unknown ticket ends without a state", async () => {
    const watched = new Watched();
    const reader = watched.read("unknown");
    await reader.done;
    expect(reader.received).toEqual([]);
  });

  it("skips the states that its reader was too slow for, and yields the latest one", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    const states = watched.watch.follow("mine", new AbortController().signal);
    expect((await states.next()).value?.attempts).toBe(1);
    for (const attempts of [2, 3, 4]) {
      await watched.write("mine", attempts);
    }
    expect((await states.next()).value?.attempts).toBe(4);
    await states.return();
  });

  it("yields an unchanged ticket again only at its interval, and only if there is news", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    let asked = 0;
    let isNews = false;
    const reader = watched.read("mine", undefined, () => {
      asked += 1;
      return isNews;
    });
    await idle();
    // Records of other kinds may have the same id.
    await watched.replica.commit([
      put("profile", "mine", undefined, { name: "mine", message: "" }),
    ]);
    watched.time.advance(everyMs - 1);
    await idle();
    expect(asked).toBe(0);
    watched.time.advance(1);
    await idle();
    expect(asked).toBe(1);
    expect(reader.received).toEqual([1]);
    isNews = true;
    watched.time.advance(everyMs);
    await idle();
    expect(reader.received).toEqual([1, 1]);
  });

  it("does not repeat an unchanged ticket if its caller asks for no news", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    const reader = watched.read("mine");
    await idle();
    watched.time.advance(3 * everyMs);
    await idle();
    expect(reader.received).toEqual([1]);
  });

  it("goes on when another watch of the same ticket ends", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    const stopping = new AbortController();
    const [stopped, going] = [watched.read("mine", stopping.signal), watched.read("mine")];
    await idle();
    stopping.abort();
    await stopped.done;
    await watched.write("mine", 2);
    await idle();
    expect(stopped.received).toEqual([1]);
    expect(going.received).toEqual([1, 2]);
  });

  it("ends when its signal aborts, and yields nothing if the signal has already aborted", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    const early = watched.read("mine", AbortSignal.abort());
    await early.done;
    expect(early.received).toEqual([]);
    const stopping = new AbortController();
    const reader = watched.read("mine", stopping.signal);
    await idle();
    stopping.abort();
    await reader.done;
    expect(reader.received).toEqual([1]);
  });

  it("leaves no listener on a signal that outlives it", async () => {
    const watched = new Watched();
    await watched.write("mine", 1);
    const { signal } = new AbortController();
    const reader = watched.read("mine", signal);
    await idle();
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await watched.delete("mine");
    await reader.done;
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

it("closing ends every watch, and leaves no timer behind", async () => {
  const watched = new Watched();
  await watched.write("one", 1);
  await watched.write("other", 2);
  const readers = [watched.read("one"), watched.read("one"), watched.read("other")];
  await idle();
  watched.time.advance(everyMs);
  await idle();
  watched.watch.close();
  await Promise.all(readers.map(({ done }) => done));
  const late = watched.read("one");
  await late.done;
  expect(late.received).toEqual([]);
  expect(watched.time.timers).toBe(0);
});
