// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { connect } from "@dm-env-rpc/client";
import { JoinWorldRequestSchema } from "@dm-env-rpc/protocol";
import { packFor } from "@dm-env-rpc/tensor-codec";
import { type SpecEntry, type SpecTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { StepResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { Load, Played } from "../loads/load.ts";
import { moveAt, type Peer } from "../peers/peer.ts";
import { type Agent, inLoops, inRounds } from "./turns.ts";

/**
 * As many connections as steps are in flight, without environments: each round sends StepRequests
 * on all of them.
 */
export const connectionsInRounds: Peer = inRounds(join);

/** The same connections, each in a loop of its own. */
export const connectionsInLoops: Peer = inLoops(join);

/** An agent that sends StepRequests and reads StepResponses itself. */
async function join(load: Load, port: number): Promise<Agent> {
  const connection = await connect(`127.0.0.1:${port}`);
  const worldName = await connection.createWorld();
  const value = create(JoinWorldRequestSchema, { worldName });
  const joined = await connection.send({ case: "joinWorld", value });
  const { actions, observations } = unpackSpecs(joined.value.specs);
  const names = Object.keys(load.world.observations).sort();
  const requestedObservations = names.map((name) => entryOf(observations, name).uid);
  const { uid, spec } = entryOf(actions, "move");
  const agent: Agent = {
    async step(tick) {
      const tensor = packFor(moveAt(tick), spec, "move");
      const response = await connection.send({
        case: "step",
        value: { actions: [{ uid, tensor }], requestedObservations },
      });
      return played(response.value, observations);
    },
    close: () => connection.close(),
  };
  await agent.step(0);
  return agent;
}

/** Observations of a response, by name. */
function played({ observations }: StepResponse, table: SpecTable): Played {
  const step = { reward: 0, discount: 0, observation: {} as Record<string, unknown> };
  for (const { uid, tensor } of observations) {
    const name = table.byUid.get(uid)?.name ?? "";
    if (name === "reward" || name === "discount") {
      step[name] = Number(tensor.data[0]);
    } else {
      step.observation[name] = tensor;
    }
  }
  return step;
}

function entryOf(table: SpecTable, name: string): SpecEntry {
  const entry = table.byName.get(name);
  if (entry === undefined) {
    throw new Error(`the world has no "${name}"`);
  }
  return entry;
}
