// SPDX-License-Identifier: Apache-2.0

import { setImmediate } from "node:timers/promises";
import { create, type Message, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type CallOptions,
  type Client,
  createClient,
  createRouterTransport,
} from "@connectrpc/connect";
import {
  AdminService,
  type Assignment,
  FrontendService,
  MatchProfileSchema,
  RegistryService,
  type Ticket,
  TicketState,
  WorldPolicySchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
import { createMatchmaker, type Matchmaker, type MatchmakerOptions } from "../src/matchmaker.ts";
import type { MatchmakerEvent } from "../src/model/events.ts";
import type { MatchmakerSettings } from "../src/model/settings.ts";
import { memoryStore } from "../src/store/memory-store.ts";
import type { Store } from "../src/store/store.ts";
import { tokenVerifier } from "../src/tokens/verifier.ts";
import { SimulatedServer, SimulatedServers, type SimulatedWorld } from "./simulated-servers.ts";
import { startMs } from "./start-ms.ts";
import type { StoreData } from "./stores.ts";

type MatchProfileInit = Exclude<MessageInitShape<typeof MatchProfileSchema>, Message>;

/** Returns a profile that matches any `count` tickets. */
export function profile({
  count = 2,
  ...rest
}: Partial<MatchProfileInit> & { readonly count?: number } = {}) {
  return create(MatchProfileSchema, {
    name: "any",
    pools: [{ name: "all" }],
    matchFunction: { function: { case: "byCount", value: { count } } },
    worldType: "gridworld",
    ...rest,
  });
}

const stateNames = new Map<TicketState, string>(
  Object.entries(TicketState).map(([name, state]) => [state, name]),
);

/** A matchmaker with simulated servers, and clients of its services, in one process and on a manual clock. */
export class Fleet implements AsyncDisposable {
  readonly time: ManualTime;
  readonly servers: SimulatedServers;
  readonly store: Store;
  readonly matchmaker: Matchmaker;
  readonly events: MatchmakerEvent[];
  readonly frontend: Client<typeof FrontendService>;
  readonly registry: Client<typeof RegistryService>;
  readonly admin: Client<typeof AdminService>;
  readonly #registered = new Map<string, { epoch: bigint; jwks: string }>();

  private constructor(
    time: ManualTime,
    servers: SimulatedServers,
    store: Store,
    matchmaker: Matchmaker,
    events: MatchmakerEvent[],
  ) {
    this.time = time;
    this.servers = servers;
    this.store = store;
    this.matchmaker = matchmaker;
    this.events = events;
    const transport = createRouterTransport((router) => matchmaker.routes(router));
    this.frontend = createClient(FrontendService, transport);
    this.registry = createClient(RegistryService, transport);
    this.admin = createClient(AdminService, transport);
  }

  static async open(
    options: MatchmakerOptions & {
      readonly time?: ManualTime | undefined;
      readonly servers?: SimulatedServers | undefined;
      readonly run?: boolean | undefined;
    } = {},
  ): Promise<Fleet> {
    const time = options.time ?? manualTime(startMs);
    const servers = options.servers ?? new SimulatedServers();
    const store = options.store ?? memoryStore({ time });
    const events: MatchmakerEvent[] = [];
    let nextId = 1;
    const matchmaker = await createMatchmaker({
      profiles: [profile()],
      store,
      servers,
      time,
      newId: () => `id-${String(nextId++).padStart(6, "0")}`,
      run: false,
      onEvent: (event) => events.push(event),
      ...options,
      // Tests do not follow most of their tickets.
      settings: { ticketLeaseMs: 86_400_000, ...options.settings },
    });
    return new Fleet(time, servers, store, matchmaker, events);
  }

  /** Adds a server and registers it. */
  async serve(...args: ConstructorParameters<typeof SimulatedServer>): Promise<SimulatedServer> {
    const server = this.servers.add(new SimulatedServer(...args));
    await this.register(server);
    return server;
  }

  async register(server: SimulatedServer, options?: CallOptions): Promise<void> {
    const request = {
      serverId: server.id,
      address: server.address,
      capacity: { maxWorlds: server.maxWorlds, maxAgents: server.maxAgents },
      worldTypes: [...server.worldTypes],
      region: server.region,
      labels: server.labels,
      ...loadOf(server),
      joinTokens: true,
      worlds: reports(server),
    };
    const { epoch, jwks } = await this.registry.registerServer(request, options);
    this.#registered.set(server.id, { epoch, jwks });
  }

  /** Sends the report of a server. */
  async report(server: SimulatedServer): Promise<void> {
    const epoch = this.#registered.get(server.id)?.epoch ?? 0n;
    const report = { serverId: server.id, epoch, worlds: reports(server), ...loadOf(server) };
    await this.registry.renewServer(report);
  }

  /** Sends the reports of all servers that are up. */
  async reportAll(): Promise<void> {
    for (const server of this.servers.all.values()) {
      if (server.isUp) {
        await this.report(server);
      }
    }
  }

  /** Lets the matchmaker do what is due until nothing is in flight. */
  async settle(rounds = 3): Promise<void> {
    for (let round = 0; round < rounds; round++) {
      await this.matchmaker.tick();
      // Custom match functions run concurrently.
      await setImmediate();
      await this.matchmaker.settled();
    }
  }

  /** Advances the clock while every server that is up reports on time. */
  async pass(ms: number, everyMs = 1_000): Promise<void> {
    for (let left = ms; left > 0; left -= everyMs) {
      this.time.advance(Math.min(everyMs, left));
      await this.reportAll();
      await this.settle(1);
    }
    await this.settle();
  }

  /** Creates tickets and returns their ids. */
  async tickets(count: number, init: object = {}): Promise<string[]> {
    const ids: string[] = [];
    for (let index = 0; index < count; index++) {
      // Each ticket is older than the next.
      this.time.advance(1);
      const { ticket } = await this.frontend.createTicket(init);
      ids.push(ticket?.id ?? "");
    }
    return ids;
  }

  async ticket(ticketId: string): Promise<Ticket> {
    const { ticket } = await this.frontend.getTicket({ ticketId });
    if (ticket === undefined) {
      throw new Error("a ticket was expected");
    }
    return ticket;
  }

  async states(ids: readonly string[]): Promise<(string | undefined)[]> {
    const tickets = await Promise.all(ids.map((id) => this.ticket(id)));
    return tickets.map(({ state }) => stateNames.get(state));
  }

  /** Lets the agent of a ticket take its seat, as its server would. */
  async join(ticketId: string): Promise<SimulatedServer> {
    const { assignment } = await this.ticket(ticketId);
    if (assignment === undefined) {
      throw new Error(`ticket ${ticketId} is not assigned`);
    }
    return await this.joinWith(assignment);
  }

  /** Lets the agents of tickets take their seats, one after the other. */
  async joinAll(ticketIds: readonly string[]): Promise<void> {
    for (const id of ticketIds) {
      await this.join(id);
    }
  }

  /** Joins with the token of an assignment, which may be outdated. */
  async joinWith(
    assignment: Pick<Assignment, "address" | "worldName" | "joinToken">,
  ): Promise<SimulatedServer> {
    const server = this.servers.all.get(assignment.address);
    const world = server?.worlds.get(assignment.worldName);
    if (server === undefined || world === undefined) {
      throw new Error(`unknown world "${assignment.worldName}" at ${assignment.address}`);
    }
    const verifier = tokenVerifier({
      serverId: () => server.id,
      address: server.address,
      jwks: () => this.#registered.get(server.id)?.jwks,
      now: () => this.time.now(),
    });
    const claims = await verifier.join(assignment.joinToken, world.name);
    world.tickets.add(claims.ticketId);
    if (world.sequences === 0) {
      world.sequences = 1;
    }
    return server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.matchmaker.close();
  }
}

/** Opens a fleet on a store with `data`. Its director leads for the whole test. */
export async function fleetOn(
  data: StoreData,
  options: Parameters<typeof Fleet.open>[0] = {},
): Promise<Fleet> {
  const store = options.store ?? (await data.open());
  const settings = { leaderLeaseMs: 60_000 };
  return await Fleet.open({ time: data.time, settings, ...options, store });
}

/** A match of two agents in a world of server "a", under a policy. */
export interface PlayedMatch extends AsyncDisposable {
  readonly fleet: Fleet;
  readonly server: SimulatedServer;
  readonly world: SimulatedWorld;
  readonly ids: readonly string[];
}

/**
 * Opens a fleet with a match of two agents.
 *
 * @param options.joined Number of agents that have joined. Default 2.
 */
export async function playedMatch(
  policy: MessageInitShape<typeof WorldPolicySchema> = {},
  {
    joined = 2,
    open = (options: Parameters<typeof Fleet.open>[0]) => Fleet.open(options),
    ...settings
  }: Partial<MatchmakerSettings> & {
    readonly joined?: number;
    open?(options: Parameters<typeof Fleet.open>[0]): Promise<Fleet>;
  } = {},
): Promise<PlayedMatch> {
  const worldPolicy = create(WorldPolicySchema, policy);
  const fleet = await open({ profiles: [profile({ worldPolicy })], settings });
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids.slice(0, joined));
  await fleet.pass(1_000);
  const world = server.worlds.get("gridworld-1");
  if (world === undefined) {
    throw new Error("a world was expected");
  }
  return { fleet, server, world, ids, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

/** Returns the events of one kind. */
export function eventsOf<K extends MatchmakerEvent["kind"]>(
  { events }: Fleet,
  kind: K,
): Extract<MatchmakerEvent, { readonly kind: K }>[] {
  return events.filter(
    (event): event is Extract<MatchmakerEvent, { readonly kind: K }> => event.kind === kind,
  );
}

/** Returns the calls of one kind to servers. */
export function callsOf({ servers }: Fleet, what: string): string[] {
  return servers.calls.filter((call) => call.startsWith(`${what} `));
}

function loadOf({ load }: SimulatedServer): { readonly load?: number } {
  return load === undefined ? {} : { load };
}

/** Returns the report of a server. */
export function reports(server: SimulatedServer) {
  return [...server.worlds.values()].map(({ name, type, tickets, guests, sequences, premade }) => ({
    name,
    type,
    agents: tickets.size + guests,
    guests,
    sequences,
    ticketIds: [...tickets],
    premade,
    joins: tickets.size + guests,
    leftTicketIds: [],
  }));
}
