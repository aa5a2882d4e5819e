// SPDX-License-Identifier: Apache-2.0
import { create, type JsonObject } from "@bufbuild/protobuf";
import {
  AgentState,
  type AgentView,
  AgentViewSchema,
  type Observation,
  ObservationSchema,
  ObservationsSchema,
  type Picture,
  PictureSchema,
  type WatchWorldResponse,
  type WorldInfo,
  WorldInfoSchema,
  type WorldSummary,
  WorldSummarySchema,
} from "@dm-env-rpc/protocol/spectator";
import { elementCount, type PackedTensor, TensorError } from "@dm-env-rpc/tensor-codec";
import { packTensor, type SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import { encodePngBeside } from "@dm-env-rpc/transport/internal/png";
import { lockstep } from "../clocks/lockstep.ts";
import type { AgentId } from "../definition/agent.ts";
import type * as authors from "../definition/world.ts";
import { atOnce } from "../engine/author-calls.ts";
import type { SpectatedAgent, SpectatedWorld } from "../engine/hosted-world.ts";
import { Observing } from "../engine/observing.ts";
import { publicMessageOf } from "../engine/public-message.ts";
import type { SeatStateView } from "../engine/state.ts";

/** Maximum number of agents in a frame. */
const maxAgents = 100;

/** Maximum number of elements of an observation in a frame. */
const maxElements = 65_536;

/** Maximum number of bytes of a picture before compression. */
const maxPictureBytes = 16 * 1024 * 1024;

/** View of a world in a frame. */
export type View = WatchWorldResponse["view"];

/** Returns the counts of a world. */
export function summaryOf(
  { name, definition, agentCount, counts }: SpectatedWorld,
  sequences: number,
): WorldSummary {
  return create(WorldSummarySchema, {
    name,
    type: definition.name,
    agents: agentCount,
    sequences: BigInt(sequences),
    ticks: BigInt(counts.ticks),
    steps: BigInt(counts.steps),
    returns: BigInt(counts.returns),
    returnSum: counts.returnSum,
  });
}

/**
 * Returns the constant properties of a world.
 *
 * @param canJoin True if the viewer may join.
 */
export function infoOf({ definition }: SpectatedWorld, canJoin: boolean): WorldInfo {
  const { description = "", version = "", clock = lockstep(), perAgent = false } = definition;
  const controls = Object.entries(definition.controls ?? {}).map(([key, { label, actions }]) => ({
    key,
    label,
    actions: actions as JsonObject,
  }));
  const { name, deadlineMs = 0, continuous = false } = clock;
  return create(WorldInfoSchema, {
    description,
    version,
    clock: { name, deadlineMs, isContinuous: continuous },
    perAgent,
    canJoin,
    controls,
  });
}

/** Returns the first agents of a world. */
export function agentViews(world: SpectatedWorld): AgentView[] {
  const views: AgentView[] = [];
  for (const { agent, seat } of world.agents()) {
    if (views.length === maxAgents) {
      break;
    }
    const { state } = seat;
    const reward = "reward" in state ? state.reward : undefined;
    views.push(
      create(AgentViewSchema, {
        agent,
        state: stateOf(state),
        isWaiting: isWaiting(state),
        reward: reward?.last ?? 0,
        return: reward?.total ?? 0,
      }),
    );
  }
  return views;
}

function stateOf(state: SeatStateView): AgentState {
  switch (state.kind) {
    case "running":
      return AgentState.RUNNING;
    case "ended":
      return AgentState.ENDED;
    default:
      return AgentState.IDLE;
  }
}

function isWaiting(state: SeatStateView): boolean {
  switch (state.kind) {
    case "opening":
    case "resetting":
      return true;
    case "running":
      return state.pending !== undefined;
    default:
      return false;
  }
}

/**
 * Calls a world's `picture`, or reads the observations of an agent that is in a sequence. Runs
 * between transitions; awaiting its promise does not delay them.
 *
 * @param network The network of the viewer in whose turn the picture is encoded.
 * @returns The view; if the author's code fails, a view with its error.
 */
export async function viewOf(
  world: authors.UntypedWorld | undefined,
  agent: SpectatedAgent | undefined,
  network: string,
  onFault: (what: string, error: unknown) => void,
): Promise<View> {
  if (world === undefined) {
    return { case: undefined };
  }
  const hasPicture = world.picture !== undefined;
  try {
    return hasPicture
      ? { case: "picture", value: await pictureOf(world, network) }
      : observationsOf(world, agent);
  } catch (error) {
    onFault(hasPicture ? "picture" : "observations", error);
    return { case: "error", value: publicMessageOf(error) };
  }
}

/** Returns the picture; a promise if the author's function is asynchronous. */
function pictureOf(world: authors.UntypedWorld, network: string): Promise<Picture> | Picture {
  const picture = atOnce(world.picture?.());
  if (typeof picture === "string") {
    const data = new TextEncoder().encode(picture);
    if (!/^\s*<(\?xml|!--|!doctype|svg)/i.test(picture) || data.length > maxPictureBytes) {
      throw notPicture(`a string of ${picture.length} characters`);
    }
    return create(PictureSchema, { mediaType: "image/svg+xml", data });
  }
  const [, , channels] = picture?.shape ?? [];
  if (picture?.dtype !== "uint8" || picture.shape.length !== 3 || ![3, 4].includes(channels ?? 0)) {
    throw notPicture(`${picture?.dtype} of shape [${picture?.shape}]`);
  }
  if (picture.data.length !== elementCount(picture.shape)) {
    throw notPicture(`${picture.data.length} bytes for the shape [${picture.shape}]`);
  }
  if (picture.data.length > maxPictureBytes) {
    throw notPicture(`${picture.data.length} bytes`);
  }
  return encodePngBeside(picture, network).then((data) =>
    create(PictureSchema, { mediaType: "image/png", data }),
  );
}

function notPicture(received: string): TensorError {
  return new TensorError({
    reason: "shape",
    name: "picture",
    expected: "uint8 of shape [height, width, 3 or 4], or the text of an SVG, of 16 MiB at most",
    received,
  });
}

/**
 * Returns the observations of an agent without its reward, which the engine reads once per tick.
 */
function observationsOf(world: authors.UntypedWorld, spectated: SpectatedAgent | undefined): View {
  const kind = spectated?.seat.state.kind;
  if (spectated === undefined || (kind !== "running" && kind !== "ended")) {
    return { case: undefined };
  }
  const { agent, seat } = spectated;
  const observing = new Observing(world.observe, "off");
  const observations = seat.specs.observations.entries
    .filter(({ name }) => name !== "reward")
    .map((entry) => observationOf(observing, seat.agent, entry));
  return { case: "observations", value: create(ObservationsSchema, { agent, observations }) };
}

function observationOf(observing: Observing, agent: AgentId, entry: SpecEntry): Observation {
  const { name, spec } = entry;
  if (elementCount(spec.shape.map(Math.abs)) > maxElements) {
    return create(ObservationSchema, { name, shape: [...spec.shape] });
  }
  const tensor = observing.read(agent, entry);
  const shape = [...tensor.shape];
  if (tensor.data.length > maxElements) {
    return create(ObservationSchema, { name, shape });
  }
  // Copied because the world may reuse its array, and a message of 8-bit elements shares its memory.
  const copy = { ...tensor, data: tensor.data.slice() } as PackedTensor;
  return create(ObservationSchema, { name, shape, tensor: packTensor(copy) });
}
