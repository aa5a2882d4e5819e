// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  DestroyWorldRequestSchema,
  EnvironmentStateType,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
  ResetRequestSchema,
  ResetWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import {
  type PackValue,
  pack,
  type Settings,
  type Tensor,
  toNested,
  unpack,
} from "@dm-env-rpc/tensor-codec";
import { packSettings, type SpecTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { type ClientStream, memoryStreamPair } from "@dm-env-rpc/transport";
import type { EnvironmentServer } from "../src/host/environment-server.ts";

const stateNames: Record<number, string> = Object.fromEntries(
  Object.entries(EnvironmentStateType).map(([name, state]) => [state, name]),
);

/** Result of a step: the state's name, and observations by name. */
export interface StepResult {
  readonly state: string;
  readonly observations: Readonly<Record<string, unknown>>;
}

/** A client that sends the messages of a test, valid or not. */
export class Peer {
  readonly stream: ClientStream;
  readonly closed: Promise<Error | undefined>;
  actions: SpecTable | undefined;
  observations: SpecTable | undefined;
  ended = false;
  received = 0;
  readonly #waiting: ((response: ProcessResponse) => void)[] = [];

  constructor(stream: ClientStream) {
    this.stream = stream;
    let close: (error: Error | undefined) => void = () => {};
    this.closed = new Promise((resolve) => {
      close = resolve;
    });
    stream.start({
      onMessage: (message) => {
        this.received += 1;
        if (message.case === "malformed") {
          throw message.value;
        }
        const waiting = this.#waiting.shift();
        if (waiting === undefined) {
          throw new Error("expected no response without a request, received one");
        }
        waiting(message);
      },
      onEnd: () => {
        this.ended = true;
      },
      onDrain: () => {},
      onClose: close,
    });
  }

  send(request: ProcessRequest): Promise<ProcessResponse> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.stream.send(request);
    });
  }

  async #value<K extends ProcessResponse["case"]>(
    kind: K,
    request: ProcessRequest,
  ): Promise<Extract<ProcessResponse, { case: K }>> {
    const response = await this.send(request);
    if (response.case === "error") {
      throw new Error(`${response.value.code}: ${response.value.message}`);
    }
    if (response.case !== kind) {
      throw new Error(`expected ${kind}, received ${response.case}`);
    }
    return response as Extract<ProcessResponse, { case: K }>;
  }

  async createWorld(settings: Settings = {}): Promise<string> {
    const value = create(CreateWorldRequestSchema, { settings: packSettings(settings) });
    return (await this.#value("createWorld", { case: "createWorld", value })).value.worldName;
  }

  async join(worldName: string, settings: Settings = {}): Promise<void> {
    const value = create(JoinWorldRequestSchema, { worldName, settings: packSettings(settings) });
    this.#learn((await this.#value("joinWorld", { case: "joinWorld", value })).value.specs);
  }

  #learn(specs: Parameters<typeof unpackSpecs>[0] | undefined): void {
    if (specs === undefined) {
      throw new Error("a response without specs");
    }
    const { actions, observations } = unpackSpecs(specs);
    this.actions = actions;
    this.observations = observations;
  }

  /** Steps with actions by name and requests observations by name; all of them by default. */
  async step(actions: Record<string, PackValue> = {}, requested?: string[]): Promise<StepResult> {
    const { observations } = this;
    if (this.actions === undefined || observations === undefined) {
      throw new Error("not joined");
    }
    const names = requested ?? observations.entries.map(({ name }) => name);
    const { value } = await this.#value("step", {
      case: "step",
      value: {
        actions: Object.entries(actions).map(([name, action]) => {
          const entry = this.actions?.byName.get(name);
          if (entry === undefined) {
            throw new Error(`no action ${name}`);
          }
          return { uid: entry.uid, tensor: pack(action, { dtype: entry.spec.dtype }) };
        }),
        requestedObservations: names.map((name) => observations.byName.get(name)?.uid ?? 999),
      },
    });
    return {
      state: stateNames[value.state] ?? "",
      observations: Object.fromEntries(
        value.observations.map(({ uid, tensor }) => [
          observations.byUid.get(uid)?.name,
          toNested(unpack(tensor) as Tensor),
        ]),
      ),
    };
  }

  async reset(settings: Settings = {}): Promise<void> {
    const value = create(ResetRequestSchema, { settings: packSettings(settings) });
    this.#learn((await this.#value("reset", { case: "reset", value })).value.specs);
  }

  async resetWorld(worldName: string, settings: Settings = {}): Promise<void> {
    const value = create(ResetWorldRequestSchema, { worldName, settings: packSettings(settings) });
    await this.#value("resetWorld", { case: "resetWorld", value });
  }

  async leave(): Promise<void> {
    await this.#value("leaveWorld", {
      case: "leaveWorld",
      value: create(LeaveWorldRequestSchema),
    });
  }

  async destroyWorld(worldName: string): Promise<void> {
    const value = create(DestroyWorldRequestSchema, { worldName });
    await this.#value("destroyWorld", { case: "destroyWorld", value });
  }

  /** Drops the stream, as a process that dies. */
  drop(): void {
    this.stream.abort(new Error("dropped"));
  }
}

/** A peer connected to a server without a network. */
export function connectPeer(server: EnvironmentServer): Peer {
  const [client, serverStream] = memoryStreamPair();
  server.accept(serverStream);
  return new Peer(client);
}

/** Several peers that have joined a world. */
export async function joinedPeers(
  server: EnvironmentServer,
  worldName: string,
  count: number,
): Promise<Peer[]> {
  const peers = Array.from({ length: count }, () => connectPeer(server));
  for (const peer of peers) {
    await peer.join(worldName);
  }
  return peers;
}

/** Runs everything that can run without time passing. */
export async function quiet(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await setImmediate();
  }
}

/** Returns true if a promise is still pending after everything that can run has run. */
export async function isBlocked(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const settle = (): void => {
    settled = true;
  };
  promise.then(settle, settle);
  await quiet();
  return !settled;
}
