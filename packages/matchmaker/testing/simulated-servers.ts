// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ServerTarget, WorldServers } from "../src/fleet/world-servers.ts";

/** A world of a simulated server. */
export interface SimulatedWorld {
  readonly name: string;
  readonly type: string;
  /** Tickets of the agents in the world. */
  readonly tickets: Set<string>;
  /** Number of agents that joined without a ticket. */
  guests: number;
  sequences: number;
  resets: number;
  readonly premade: boolean;
}

/** An environment server without a network. */
export class SimulatedServer {
  readonly id: string;
  readonly address: string;
  readonly maxWorlds: number;
  readonly maxAgents: number;
  readonly worldTypes: readonly string[];
  readonly region: string;
  readonly labels: Record<string, string>;
  readonly worlds: Map<string, SimulatedWorld> = new Map();
  /** Load that it reports. */
  load: number | undefined;
  /** True while the server answers. */
  isUp = true;
  created = 0;
  /** Text with which the names of new worlds begin. */
  namePrefix = "";
  /** World types that creates requested. */
  readonly namedTypes: (string | undefined)[] = [];
  /** Number of destroys, by world. */
  readonly destroyed: Map<string, number> = new Map();
  /** Errors with which the next creates fail. */
  readonly createErrors: Error[] = [];
  /** Error with which every destroy fails. */
  destroyError: Error | undefined;

  constructor(
    id: string,
    {
      address = `${id}.test:1`,
      maxWorlds = 10,
      maxAgents = 40,
      worldTypes = ["gridworld"] as readonly string[],
      region = "",
      labels = {},
    } = {},
  ) {
    this.id = id;
    this.address = address;
    this.maxWorlds = maxWorlds;
    this.maxAgents = maxAgents;
    this.worldTypes = worldTypes;
    this.region = region;
    this.labels = labels;
  }

  create(type: string, premade = false): string {
    if (this.worlds.size >= this.maxWorlds) {
      throw new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full");
    }
    this.created += 1;
    const name = `${this.namePrefix}${type}-${this.created}`;
    const tickets = new Set<string>();
    this.worlds.set(name, { name, type, tickets, guests: 0, sequences: 0, resets: 0, premade });
    return name;
  }

  destroy(name: string): void {
    if (this.destroyError !== undefined) {
      throw this.destroyError;
    }
    const world = this.worlds.get(name);
    if (world === undefined) {
      throw new DmEnvRpcError("NOT_FOUND", `unknown world "${name}"`);
    }
    this.worlds.delete(name);
    this.destroyed.set(name, (this.destroyed.get(name) ?? 0) + 1);
  }
}

/** Access to simulated servers for a matchmaker. */
export class SimulatedServers implements WorldServers {
  readonly all: Map<string, SimulatedServer> = new Map();
  /** Calls so far, such as `create a` and `destroy a/gridworld-1`. */
  readonly calls: string[] = [];
  /** Called before the work of each call, and before its response. */
  pace: (what: string) => Promise<void> = async () => {};

  add(server: SimulatedServer): SimulatedServer {
    this.all.set(server.address, server);
    return server;
  }

  /** Delays calls of one kind until the returned function is called. */
  hold(held: string): () => void {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.pace = (what) => (what === held ? released : Promise.resolve());
    return release;
  }

  async check({ id, address }: ServerTarget): Promise<void> {
    this.calls.push(`check ${id}`);
    await this.pace("check");
    this.#reach(address);
  }

  async isThere({ id, address }: ServerTarget): Promise<boolean> {
    return this.#reach(address).id === id;
  }

  async create(
    { id, address }: ServerTarget,
    _settings: unknown,
    worldType: string | undefined,
  ): Promise<string> {
    this.calls.push(`create ${id}`);
    await this.pace("create");
    const server = this.#reach(address);
    const error = server.createErrors.shift();
    if (error !== undefined) {
      throw error;
    }
    server.namedTypes.push(worldType);
    const name = server.create(worldType ?? server.worldTypes[0] ?? "");
    await this.pace("created");
    this.#reach(address);
    return name;
  }

  async destroy({ id, address }: ServerTarget, name: string): Promise<void> {
    this.calls.push(`destroy ${id}/${name}`);
    await this.pace("destroy");
    this.#reach(address).destroy(name);
    await this.pace("destroyed");
  }

  async reset({ id, address }: ServerTarget, name: string): Promise<void> {
    this.calls.push(`reset ${id}/${name}`);
    await this.pace("reset");
    const world = this.#reach(address).worlds.get(name);
    if (world === undefined) {
      throw new DmEnvRpcError("NOT_FOUND", `unknown world "${name}"`);
    }
    world.resets += 1;
    world.sequences += 1;
  }

  forget(serverId: string): void {
    this.calls.push(`forget ${serverId}`);
  }

  async close(): Promise<void> {}
  async [Symbol.asyncDispose](): Promise<void> {}

  #reach(address: string): SimulatedServer {
    const server = this.all.get(address);
    if (server?.isUp === true) {
      return server;
    }
    throw new DmEnvRpcError("UNAVAILABLE", `no server listens at ${address}`, {
      origin: "connection",
    });
  }
}
