// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type MatchProfile, MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import { counting } from "./world-server.ts";

/** Matches any two tickets in a world that counts from a hundred. */
export const pairs: MatchProfile = create(MatchProfileSchema, {
  name: "pairs",
  pools: [{ name: "all" }],
  matchFunction: { function: { case: "byCount", value: { count: 2 } } },
  worldType: "counting",
  worldSettings: packSettings({ start: 100 }, counting.settings),
});
