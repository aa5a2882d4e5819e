// SPDX-License-Identifier: Apache-2.0
// A server whose worlds count their agents: node world-server.js TOKEN MATCHMAKER...
import { randomUUID } from "node:crypto";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import type { WorldEvent } from "./events.ts";

const ticks = 20;
const maxWorlds = 60;
const [token = "", ...matchmakers] = process.argv.slice(2);

/** A world that admits more agents than its match has (`seats`), so that it can report an overbooked match. */
const counted = defineWorld({
  name: "counted",
  settings: { seats: t.int32({ min: 1, max: 100 }) },
  joinSettings: { ticket: t.string() },
  actions: { move: t.int32() },
  observations: { tick: t.int32() },
  agents: ({ seats }) => ({ min: seats, max: 4 * seats }),
  clock: lockstep({ deadlineMs: 500, onMissedDeadline: "default-action" }),
  create({ settings: { seats } }) {
    const world = randomUUID();
    const tickets = new Map<number, string>();
    const tell = (is: WorldEvent["is"], ticket: string): void => {
      const event: WorldEvent = { is, world, agents: tickets.size, seats, ticket };
      process.stdout.write(`${JSON.stringify(event)}\n`);
    };
    let tick = 0;
    return {
      join(agent, { ticket }) {
        tickets.set(agent, ticket);
        tell("joined", ticket);
      },
      leave(agent) {
        const ticket = tickets.get(agent) ?? "";
        tickets.delete(agent);
        tell("left", ticket);
      },
      start() {
        tick = 0;
      },
      step() {
        tick += 1;
      },
      status: () => (tick < ticks ? "running" : "terminated"),
      observe: { tick: () => tick },
    };
  },
});

const { server, registration } = await serveRegistered(
  (hooks) => serve({ worlds: [counted], ...hooks }),
  { matchmakers, token, maxWorlds, maxAgents: 4 * maxWorlds, worldTypes: [counted.name] },
);
await registration.registered;
process.stdout.write(`listening on ${server.url}\n`);
