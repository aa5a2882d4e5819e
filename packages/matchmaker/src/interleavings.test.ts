// SPDX-License-Identifier: Apache-2.0

import { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
import fc, { type Scheduler } from "fast-check";
import { describe, expect, it } from "vitest";
import { Fleet, profile } from "../testing/fleet.ts";
import { recordsOf, violations } from "../testing/invariants.ts";
import { SimulatedServers } from "../testing/simulated-servers.ts";
import { startMs } from "../testing/start-ms.ts";
import { wrappedStore } from "../testing/wrapped-stores.ts";
import { memoryStore } from "./store/memory-store.ts";
import type { Store } from "./store/store.ts";

const leaderLeaseMs = 1_000;

/** Concurrent actions of agents, servers and time. */
const deed = fc.oneof(
  { weight: 4, arbitrary: fc.constant("create" as const) },
  { weight: 2, arbitrary: fc.constant("cancel" as const) },
  { weight: 3, arbitrary: fc.constant("join" as const) },
  { weight: 2, arbitrary: fc.constant("cancel, then join" as const) },
  { weight: 1, arbitrary: fc.constant("cancel while playing" as const) },
  { weight: 2, arbitrary: fc.constant("leave" as const) },
  { weight: 3, arbitrary: fc.constant("report" as const) },
  { weight: 2, arbitrary: fc.constant("lease runs out" as const) },
  { weight: 1, arbitrary: fc.constant("server dies" as const) },
  { weight: 1, arbitrary: fc.constant("create fails" as const) },
);

/** Wraps a store so that each call waits for its turn before it has an effect, and again before it is answered. */
function scheduled(store: Store, turn: (label: string) => Promise<void>): Store {
  return wrappedStore(store, async (run, { name }) => {
    await turn(name);
    const result = await run();
    await turn(`${name} answered`);
    return result;
  });
}

async function play(
  scheduler: Scheduler,
  deeds: readonly (typeof deed extends fc.Arbitrary<infer T> ? T : never)[],
) {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const servers = new SimulatedServers();
  let isRandom = false;
  const turn = async (label: string): Promise<void> => {
    if (isRandom) {
      await scheduler.schedule(Promise.resolve(), label);
    }
  };
  const wrong: string[] = [];
  const watched = wrappedStore(store, async (run, { name }) => {
    const result = await run();
    if (name === "commit") {
      wrong.push(...(await violations(store, servers)));
    }
    return result;
  });
  let made = 0;
  const open = (name: string): Promise<Fleet> =>
    Fleet.open({
      time,
      servers,
      store: scheduled(watched, turn),
      profiles: [profile({ backfill: true })],
      settings: { leaderLeaseMs },
      newId: () => `${name}-${++made}`,
    });
  const rivals = [await open("one"), await open("two")];
  const agents = await open("agents");
  await agents.serve("a", { maxWorlds: 1 });
  await agents.serve("b", { maxWorlds: 2, maxAgents: 4 });
  await agents.tickets(5);

  isRandom = true;
  const turns = async (rival: Fleet): Promise<void> => {
    for (let round = 0; round < 6; round++) {
      await rival.settle(1);
    }
  };
  const act = async (): Promise<void> => {
    for (const what of deeds) {
      await turn(what);
      await happens(what, agents, servers, time).catch((error: unknown) => {
        // Agents may be too late, and dead servers do not answer; any other error fails the test.
        if (
          !/not assigned|unknown world|expired|register it again|taken out|no server listens/.test(
            String(error),
          )
        ) {
          throw error;
        }
      });
    }
  };
  servers.pace = turn;
  await scheduler.waitFor(Promise.all([...rivals.map(turns), act()]));
  isRandom = false;
  await scheduler.waitIdle();
  servers.pace = async () => {};

  time.advance(leaderLeaseMs);
  for (const server of servers.all.values()) {
    if (server.isUp) {
      await agents.register(server);
    }
  }
  await agents.pass(60_000, 5_000);
  const { ticket, world } = await recordsOf(store);
  const settled = {
    wrong: [...wrong, ...(await violations(store, servers))],
    unsettled: [...ticket.values()].filter(({ state }) => state === "matched"),
    creating: [...world.values()].filter(({ state }) => state !== "open"),
    orphans: [...servers.all.values()]
      .filter(({ isUp }) => isUp)
      .flatMap(({ id, worlds }) =>
        [...worlds.keys()].filter(
          (name) =>
            ![...world.values()].some((known) => known.serverId === id && known.name === name),
        ),
      ),
    steps: [...rivals, agents].flatMap(({ events }) =>
      events.filter(({ kind }) => kind === "step-failed"),
    ),
  };
  for (const fleet of [...rivals, agents]) {
    await fleet[Symbol.asyncDispose]();
  }
  return settled;
}

async function happens(
  what: string,
  fleet: Fleet,
  servers: SimulatedServers,
  time: ManualTime,
): Promise<void> {
  const some = async (state: string): Promise<string | undefined> => {
    const { ticket } = await recordsOf(fleet.store);
    return [...ticket.values()].find((candidate) => candidate.state === state)?.id;
  };
  const up = [...servers.all.values()].filter(({ isUp }) => isUp);
  switch (what) {
    case "create":
      await fleet.tickets(1);
      break;
    case "cancel": {
      const id =
        (await some("matched")) ?? (await some("assigned")) ?? (await some("waiting")) ?? "";
      if (id !== "") {
        await fleet.frontend.cancelTicket({ ticketId: id });
      }
      break;
    }
    case "join": {
      const id = await some("assigned");
      if (id !== undefined) {
        await fleet.join(id);
      }
      break;
    }
    case "cancel, then join": {
      const id = await some("assigned");
      if (id === undefined) {
        break;
      }
      const { assignment } = await fleet.ticket(id);
      await fleet.frontend.cancelTicket({ ticketId: id });
      if (assignment !== undefined) {
        await fleet.joinWith(assignment);
      }
      break;
    }
    case "cancel while playing": {
      const id = await some("joined");
      if (id !== undefined) {
        await fleet.frontend.cancelTicket({ ticketId: id });
      }
      break;
    }
    case "leave": {
      const world = up
        .flatMap(({ worlds }) => [...worlds.values()])
        .find(({ tickets }) => tickets.size > 0);
      const [first] = world?.tickets ?? [];
      if (first !== undefined) {
        world?.tickets.delete(first);
      }
      break;
    }
    case "report":
      await fleet.reportAll();
      break;
    case "lease runs out":
      time.advance(leaderLeaseMs);
      break;
    case "server dies":
      if (up.length > 1 && up[0] !== undefined) {
        up[0].isUp = false;
      }
      break;
    case "create fails":
      up[0]?.createErrors.push(new Error("the network is down"));
      break;
  }
}

describe("two matchmakers of one store", () => {
  it("violate no invariant in any interleaving of their steps with agents, servers and time", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(deed, { maxLength: 20 }),
        async (scheduler, deeds) => {
          expect(await play(scheduler, deeds)).toEqual({
            wrong: [],
            unsettled: [],
            creating: [],
            orphans: [],
            steps: [],
          });
        },
      ),
      { numRuns: 60, endOnFailure: true },
    );
  });
});
