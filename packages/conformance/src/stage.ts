// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import type { Settings } from "@dm-env-rpc/tensor-codec";
import { openConnectStream, openStream } from "@dm-env-rpc/transport";
import { AgentConnection } from "./agent-connection.ts";
import { agentCounts, type ConformanceConfig } from "./config.ts";
import { expectThat, Mismatch } from "./mismatch.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { codecsWithRaw } from "./raw-request.ts";

/** Pause between two steps of a companion. */
const companionPauseMs = 2;

/** Connections and worlds of one check; `clear` removes all of them. */
export class Stage {
  readonly address: string;
  readonly protocol: ProtocolName;
  readonly config: ConformanceConfig;
  readonly timeoutMs: number;
  readonly quietMs: number;
  readonly #connections: AgentConnection[] = [];
  /** Agents that this stage has joined, by world. */
  readonly #joined = new Map<string, number>();
  /** The companions of each world, each with the promise of its stepping. */
  readonly #companions = new Map<string, Map<AgentConnection, Promise<void>>>();
  readonly #worlds: string[] = [];

  constructor(address: string, protocol: ProtocolName, config: ConformanceConfig) {
    this.address = address;
    this.protocol = protocol;
    this.config = config;
    this.timeoutMs = config.timeoutMs ?? 10_000;
    this.quietMs = config.quietMs ?? 60;
  }

  /** Opens a connection. */
  async connect(): Promise<AgentConnection> {
    const options = { connectTimeoutMs: this.timeoutMs };
    const stream =
      this.protocol === "grpc"
        ? await openStream(this.address, { ...options, codecs: codecsWithRaw() })
        : await openConnectStream(this.address, { ...options, protocol: this.protocol });
    const connection = new AgentConnection(stream, this.timeoutMs);
    this.#connections.push(connection);
    return connection;
  }

  /** Creates a world, or returns the premade one. */
  async world(settings?: Settings, by?: AgentConnection): Promise<string> {
    const { worlds = "many", premade, create = {} } = this.config;
    if (worlds === "none") {
      return premade ?? "";
    }
    const creator = by ?? (await this.connect());
    const world = await creator.createWorld(settings ?? create);
    this.#worlds.push(world);
    return world;
  }

  /** Registers a world that a check created, to be destroyed after the check. */
  owns(world: string): void {
    this.#worlds.push(world);
  }

  /** Joins an agent to a world, by default a new one, with the companions that it needs. */
  async agent(world?: string): Promise<AgentConnection> {
    const where = world ?? (await this.world());
    const agent = await this.#join(where);
    await this.accompany(where);
    return agent;
  }

  /** Joins several agents to one world, with the companions that it needs. */
  async agents(
    count: number,
    world?: string,
  ): Promise<{ world: string; agents: AgentConnection[] }> {
    const joined = await this.agentsAlone(count, world ?? (await this.world()));
    await this.accompany(joined.world);
    return joined;
  }

  /** Joins several agents to one world, without companions. */
  async agentsAlone(
    count: number,
    world: string,
  ): Promise<{ world: string; agents: AgentConnection[] }> {
    const agents: AgentConnection[] = [];
    while (agents.length < count) {
      agents.push(await this.#join(world));
    }
    return { world, agents };
  }

  /**
   * Joins companions to a world until it has the agents that its first step needs. They step by
   * themselves and leave before the world is destroyed.
   *
   * @param beside Number of agents that the check joins without the stage.
   */
  async accompany(world: string, beside = 0): Promise<void> {
    const { min } = agentCounts(this.config);
    const companions = this.#companions.get(world) ?? new Map<AgentConnection, Promise<void>>();
    this.#companions.set(world, companions);
    while ((this.#joined.get(world) ?? 0) + beside < min) {
      const companion = await this.#join(world);
      companions.set(companion, this.#stepOn(companion, world));
    }
  }

  /** Makes the companions of a world leave it. */
  async dismiss(world: string): Promise<void> {
    const companions = [...(this.#companions.get(world) ?? [])];
    this.#companions.delete(world);
    await Promise.all(
      companions.map(async ([companion, stepping]) => {
        // Abandons a step that waits for agents of the check.
        await Promise.race([stepping, delay(this.quietMs)]);
        await companion.close();
      }),
    );
  }

  /**
   * Returns the number of agents that had to join a world until a first step was answered. Returns undefined if no
   * step was answered or no agent could join; the checks report these faults with more detail.
   */
  async neededAgents(): Promise<number | undefined> {
    const mostAgents = 8;
    try {
      const { world, agents } = await this.agents(1);
      const companions = this.#companions.get(world)?.size ?? 0;
      for (let count = 1 + companions; count <= mostAgents; count++) {
        const steps = agents.map((agent) => agent.keepStepping());
        // The whole search takes at most the time of one first step.
        const share = count === 1 + companions ? 2 : 2 * mostAgents;
        const waited = delay(this.timeoutMs / share, "waited");
        if ((await Promise.race([...steps, waited])) !== "waited") {
          return count;
        }
        agents.push(await this.#join(world));
      }
    } catch (error) {
      if (!(error instanceof Mismatch)) {
        throw error;
      }
    }
    return undefined;
  }

  async #join(world: string): Promise<AgentConnection> {
    const connection = await this.connect();
    await connection.join(world, this.config.join ?? {});
    this.#joined.set(world, (this.#joined.get(world) ?? 0) + 1);
    return connection;
  }

  /** Steps a companion until its stream ends or a request is refused. */
  async #stepOn(companion: AgentConnection, world: string): Promise<void> {
    try {
      do {
        await companion.step();
        // If a reset waits for the end of the sequence, an agent that only steps would delay it.
        if (this.config.onReset === "wait") {
          await companion.reset();
        }
        await delay(companionPauseMs);
      } while (this.#companions.get(world)?.has(companion) === true);
    } catch (error) {
      // The agents of the check meet the same fault and report it.
      if (!(error instanceof Mismatch)) {
        throw error;
      }
    }
  }

  /** Joins several agents to one world and steps them until all are RUNNING. */
  async running(
    count: number,
    world?: string,
  ): Promise<{ world: string; agents: AgentConnection[] }> {
    const joined = await this.agents(count, world);
    const { agents } = joined;
    const firstSteps = Promise.all(agents.map((agent) => agent.keepStepping()));
    firstSteps.catch(() => undefined);
    const { clock } = this.config;
    if (clock === undefined) {
      await Promise.race([firstSteps, delay(this.quietMs)]);
    } else if (clock !== "turns") {
      await firstSteps;
    }
    // With turns, an agent must move before the next one is answered.
    await this.drive(agents, () => agents.every(({ states }) => states.length > 0));
    for (const { states } of agents) {
      expectThat(states[0] === "RUNNING", "RUNNING on an agent's first step", `${states[0]}`);
    }
    return joined;
  }

  /** Joins two agents and steps them until they are RUNNING; `one` has no outstanding step. */
  async twoRunning(): Promise<{ world: string; one: AgentConnection; other: AgentConnection }> {
    const { world, agents } = await this.running(2);
    const [first, second] = agents as [AgentConnection, AgentConnection];
    // With turns, the step of one agent is always outstanding.
    const [one, other] = first.outstanding ? [second, first] : [first, second];
    return { world, one, other };
  }

  /**
   * Steps each agent, one step at a time, until a condition holds or a promise settles; some
   * steps may stay outstanding.
   */
  async drive(
    agents: readonly AgentConnection[],
    until: (() => boolean) | Promise<unknown>,
  ): Promise<void> {
    let stop: () => void = () => undefined;
    let settled = false;
    const stopped = new Promise<void>((resolve) => {
      stop = resolve;
    });
    const settle = (): void => {
      settled = true;
      stop();
    };
    if (typeof until !== "function") {
      until.then(settle, settle);
    }
    const over = typeof until === "function" ? until : () => settled;
    await Promise.all(
      agents.map(async (agent) => {
        while (!over()) {
          await Promise.race([agent.keepStepping(), stopped]);
        }
        stop();
      }),
    );
  }

  /** Checks that an answer stays pending while the agents of the check are idle. */
  async staysOpen(answer: Promise<unknown>, what: string): Promise<void> {
    const early = await Promise.race([
      answer.then(
        () => "an answer",
        (error: unknown) => `an error: ${String(error)}`,
      ),
      delay(this.quietMs, undefined),
    ]);
    if (early !== undefined) {
      throw new Mismatch(`${what} to wait`, early);
    }
  }

  /** Closes the connections and destroys the worlds of the check. */
  async clear(): Promise<void> {
    this.#companions.clear();
    this.#joined.clear();
    await Promise.all(this.#connections.splice(0).map((connection) => connection.close()));
    if (this.#worlds.length === 0) {
      return;
    }
    const janitor = await this.connect();
    for (const world of this.#worlds.splice(0)) {
      // A dropped agent may still be leaving; a world that no longer exists needs no destroy.
      for (let attempt = 0; attempt < 5; attempt++) {
        try {
          await janitor.destroyWorld(world);
          break;
        } catch {
          await delay(20);
        }
      }
    }
    await janitor.close();
    this.#connections.length = 0;
  }
}
