// SPDX-License-Identifier: Apache-2.0
import { deepEqual } from "node:assert/strict";
import { create } from "@bufbuild/protobuf";
import { serveMatchmaker } from "@dm-env-rpc/matchmaker";
import { joinMatch, matchmakerClient } from "@dm-env-rpc/matchmaker/client";
import { register } from "@dm-env-rpc/matchmaker/registration";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { serve } from "@dm-env-rpc/server";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import { adder } from "./world.ts";

const profile = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "all" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: adder.name,
  worldSettings: packSettings({ start: 100 }, adder.settings),
});
await using matchmaker = await serveMatchmaker({ profiles: [profile] });
await using server = await serve({ worlds: [adder] });
await using registration = register({
  matchmakers: matchmaker.url,
  address: server.url,
  maxWorlds: 1,
  maxAgents: 2,
  worldTypes: [adder.name],
  worlds: () =>
    server
      .worldNames()
      .map((name) => ({ name, type: adder.name, agents: 0, joins: 0, sequences: 0 })),
  joinTokens: false,
});
await registration.registered;

const agents = matchmakerClient(matchmaker.url);
const [one, two] = await Promise.all([agents.findMatch(), agents.findMatch()]);
deepEqual(one.worldName, two.worldName);
await using first = await joinMatch(one, { as: adder });
await using second = await joinMatch(two, { as: adder });
await Promise.all([first.reset(), second.reset()]);
const steps = await Promise.all([first.step({ add: 1 }), second.step({ add: 2 })]);
deepEqual(
  steps.map(({ observation }) => observation.total),
  [103, 103],
);
