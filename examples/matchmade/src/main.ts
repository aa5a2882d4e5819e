import { create } from "@bufbuild/protobuf";
import { byCount, serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { serve } from "@dm-env-rpc/server";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import { tug } from "./tug.ts";

// Matches beginners with each other, and other agents in pairs of similar strength.
const pools = [
  { name: "beginners", tagPresentFilters: [{ tag: "beginner" }] },
  { name: "others", doubleRangeFilters: [{ doubleArg: "strength", min: 0 }] },
];
const world = { worldType: "tug", worldSettings: packSettings({ length: 12 }, tug.settings) };
const profiles = [
  create(MatchProfileSchema, {
    name: "lessons",
    pools: pools.slice(0, 1),
    // A custom match function is a plain generator; here it is a built-in one under another name.
    matchFunction: { function: { case: "custom", value: { name: "in-pairs" } } },
    seats: 2,
    ...world,
  }),
  create(MatchProfileSchema, {
    name: "contests",
    pools: pools.slice(1),
    matchFunction: {
      function: {
        case: "skillWindow",
        // Strengths at most 1 apart; 2 apart for tickets that have waited ten seconds.
        value: { count: 2, doubleArg: "strength", window: 1, widenPerSecond: 0.1 },
      },
    },
    ...world,
  }),
];
await using matchmaker = await serveMatchmaker({ profiles, functions: { "in-pairs": byCount(2) } });

// A server of worlds. Only the matchmaker creates worlds on it and sends agents to it. Any number of servers may register.
await using registered = await serveRegistered((hooks) => serve({ worlds: [tug], ...hooks }), {
  matchmakers: matchmaker.url,
  maxWorlds: 10,
  maxAgents: 20,
  worldTypes: [tug.name],
});
await registered.registration.registered;

/** Plays an agent: asks for a match and plays it. */
async function play(name: string, strength: number, tags: readonly string[]): Promise<string> {
  const client = matchmakerClient(matchmaker.url);
  const match = await client.findMatch(tags.length > 0 ? { tags } : { doubles: { strength } });
  await using environment = await joinMatch(match, { as: tug });
  let step = await environment.reset();
  while (!step.last()) {
    step = await environment.step({ pull: strength });
  }
  // An agent that has finished cancels its ticket.
  await client.cancel(match.ticketId);
  return `${name} in ${match.worldName}: ${(step.reward ?? 0) > 0 ? "won" : "lost"}`;
}

const results = await Promise.all([
  play("Ada", 3, ["beginner"]),
  play("Bob", 1, ["beginner"]),
  play("Cleo", 8, []),
  play("Dan", 5, []),
  play("Eve", 4, []),
  play("Finn", 9, []),
]);
for (const line of results.sort()) {
  console.log(line);
}
