// SPDX-License-Identifier: Apache-2.0
import { type DescEnum, type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Client } from "@connectrpc/connect";
import {
  AdminService,
  type MatchProfile,
  MatchProfileSchema,
  MatchSchema,
  RegistryService,
  type Server,
  ServerSchema,
  ServerStateSchema,
  type Ticket,
  TicketSchema,
  TicketStateSchema,
  type WatchResponse,
  WatchResponse_KindSchema,
  WorldReportSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { fromCallError } from "@dm-env-rpc/transport/internal";
import { Callers, type CallersOptions } from "../calls/callers.ts";
import { type Call, help, parseCommand } from "./options.ts";
import { age, Table } from "./table.ts";

/** The parts of a process that a command uses: arguments, output, files and the clock. */
export interface Surroundings {
  readonly args: readonly string[];
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  readonly readFile: (path: string) => string;
  readonly version: () => string;
  readonly now: () => number;
  /** Ends a watch. */
  readonly signal: AbortSignal;
}

const pageSize = 1_000;

/**
 * Runs a command.
 *
 * @returns The exit code.
 */
export async function run(around: Surroundings): Promise<number> {
  let command: Call;
  let options: CallersOptions;
  try {
    const parsed = parseCommand(around.args);
    if (parsed.kind === "help" || parsed.kind === "version") {
      around.out(parsed.kind === "help" ? help : `${around.version()}\n`);
      return 0;
    }
    command = parsed;
    options = callersOptions(command.target, around.readFile);
  } catch (error) {
    around.error(`${error instanceof Error ? error.message : String(error)}; see --help\n`);
    return 2;
  }
  try {
    await call(command, options, around);
    return 0;
  } catch (error) {
    if (around.signal.aborted) {
      return 0;
    }
    around.error(`${explained(fromCallError(error), command)}\n`);
    return 1;
  }
}

function callersOptions(
  { matchmakers, token, ca, cert, key }: Call["target"],
  readFile: Surroundings["readFile"],
): CallersOptions {
  const read = (flag: string, path: string | undefined): string | undefined => {
    try {
      return path === undefined ? undefined : readFile(path).trim();
    } catch (error) {
      throw new Error(`${flag}: expected a file that can be read, received "${path}"`, {
        cause: error,
      });
    }
  };
  return {
    matchmakers,
    token: read("--token", token),
    tls: { ca: read("--ca", ca), cert: read("--cert", cert), key: read("--key", key) },
  };
}

async function call(command: Call, options: CallersOptions, around: Surroundings): Promise<void> {
  const admin = new Callers(AdminService, options);
  switch (command.kind) {
    case "tickets":
      return await tickets(admin, command, around);
    case "servers":
      return await list(around, command.json, serverTable(), pagesOf(admin, serversPage));
    case "worlds":
      return await list(around, command.json, worldTable(), pagesOf(admin, serversPage));
    case "profiles":
      return await list(around, command.json, profileTable(), pagesOf(admin, profilesPage));
    case "drain":
      return await drain(command.serverId, command.json, options, around);
    case "watch":
      return await watch(admin, command.json, around);
  }
}

/** A table of records of one kind. */
interface Listing<T> {
  readonly table: Table;
  /** Returns the rows of a record, as cells and as JSON. */
  rows(record: T, nowMs: number): readonly { readonly cells: string[]; readonly json: unknown }[];
}

async function list<T>(
  { out, now }: Surroundings,
  json: boolean,
  { table, rows }: Listing<T>,
  pages: AsyncIterable<readonly T[]>,
): Promise<void> {
  for await (const page of pages) {
    const printed = page.flatMap((record) => rows(record, now()));
    out(
      json
        ? printed.map((row) => `${JSON.stringify(row.json)}\n`).join("")
        : table.text(printed.map(({ cells }) => cells)),
    );
  }
}

/** Reads the page that a page token refers to. */
type ReadPage<T> = (
  client: Client<typeof AdminService>,
  pageToken: string,
  options: object,
) => Promise<{ readonly items: readonly T[]; readonly nextPageToken: string }>;

async function* pagesOf<T>(
  admin: Callers<typeof AdminService>,
  read: ReadPage<T>,
): AsyncGenerator<readonly T[]> {
  let pageToken = "";
  do {
    const { items, nextPageToken } = await admin.call((client, options) =>
      read(client, pageToken, options),
    );
    yield items;
    pageToken = nextPageToken;
  } while (pageToken !== "");
}

const serversPage: ReadPage<Server> = async (client, pageToken, options) => {
  const { servers, nextPageToken } = await client.listServers({ pageSize, pageToken }, options);
  return { items: servers, nextPageToken };
};

const profilesPage: ReadPage<MatchProfile> = async (client, pageToken, options) => {
  const { profiles, nextPageToken } = await client.listProfiles({ pageSize, pageToken }, options);
  return { items: profiles, nextPageToken };
};

async function tickets(
  admin: Callers<typeof AdminService>,
  { state, json }: Extract<Call, { readonly kind: "tickets" }>,
  around: Surroundings,
): Promise<void> {
  const page: ReadPage<Ticket> = async (client, pageToken, options) => {
    const request = { pageSize, pageToken, state };
    const { tickets, nextPageToken } = await client.listTickets(request, options);
    return { items: tickets, nextPageToken };
  };
  await list(around, json, ticketTable(), pagesOf(admin, page));
}

function ticketTable(): Listing<Ticket> {
  return {
    table: new Table(["TICKET", "STATE", "AGE", "PARTY", "PROFILE", "WORLD", "ERROR"]),
    rows(ticket, nowMs) {
      const { assignment, createTime, error } = ticket;
      const cells = [
        ticket.id,
        nameOf(TicketStateSchema, ticket.state),
        createTime === undefined ? "-" : age(nowMs - timestampMs(createTime)),
        String(ticket.partySize),
        orDash(ticket.profile),
        assignment === undefined ? "-" : `${assignment.worldName} at ${assignment.address}`,
        orDash(error?.message ?? ""),
      ];
      return [{ cells, json: jsonOf(TicketSchema, withoutTokens(ticket)) }];
    },
  };
}

function serverTable(): Listing<Server> {
  return {
    table: new Table([
      "SERVER",
      "STATE",
      "REGION",
      "ADDRESS",
      "WORLDS",
      "SEATS",
      "AGENTS",
      "LOAD",
      "TYPES",
    ]),
    rows(server) {
      const { capacity, worlds } = server;
      const cells = [
        server.id,
        nameOf(ServerStateSchema, server.state),
        orDash(server.region),
        server.address,
        `${server.placedWorlds}/${capacity?.maxWorlds ?? 0}`,
        `${server.placedSeats}/${capacity?.maxAgents ?? 0}`,
        String(worlds.reduce((sum, { agents }) => sum + agents, 0)),
        server.load === undefined ? "-" : `${Math.round(100 * server.load)}%`,
        server.worldTypes.join(","),
      ];
      return [{ cells, json: jsonOf(ServerSchema, server) }];
    },
  };
}

function worldTable(): Listing<Server> {
  return {
    table: new Table(["WORLD", "TYPE", "SERVER", "ADDRESS", "AGENTS", "SEQUENCES"]),
    rows: ({ id, address, worlds }) =>
      worlds.map((world) => ({
        cells: [world.name, world.type, id, address, String(world.agents), String(world.sequences)],
        json: { serverId: id, address, ...jsonOf(WorldReportSchema, world) },
      })),
  };
}

function profileTable(): Listing<MatchProfile> {
  return {
    table: new Table(["PROFILE", "FUNCTION", "POOLS", "WORLD", "SEATS", "BACKFILL"]),
    rows(profile) {
      const cells = [
        profile.name,
        profile.matchFunction?.function.case ?? "-",
        profile.pools.map(({ name }) => name).join(","),
        profile.worldType,
        profile.seats === 0 ? "-" : String(profile.seats),
        profile.backfill ? "yes" : "no",
      ];
      return [{ cells, json: jsonOf(MatchProfileSchema, profile) }];
    },
  };
}

async function drain(
  serverId: string,
  json: boolean,
  options: CallersOptions,
  { out }: Surroundings,
): Promise<void> {
  const registry = new Callers(RegistryService, options);
  await registry.call((client, call) => client.drainServer({ serverId }, call));
  out(
    json
      ? `${JSON.stringify({ serverId, state: "draining" })}\n`
      : `server ${serverId} receives no more worlds; run the command "watch" to see when its current worlds end\n`,
  );
}

async function watch(
  admin: Callers<typeof AdminService>,
  json: boolean,
  { out, now, signal }: Surroundings,
): Promise<void> {
  for await (const { change } of admin.client.watch({}, { signal })) {
    const time = new Date(now()).toISOString();
    const line = json ? JSON.stringify({ time, ...changeJson(change) }) : changeText(change);
    out(json ? `${line}\n` : `${time}  ${line}\n`);
  }
  if (!signal.aborted) {
    throw new DmEnvRpcError("ABORTED", "the matchmaker ended the watch; watch again");
  }
}

function changeText(change: WatchResponse["change"]): string {
  switch (change.case) {
    case "profile":
      return `profile  ${change.value.name}  for worlds of type ${change.value.worldType}`;
    case "server": {
      const { id, state, placedWorlds, placedSeats } = change.value;
      const name = nameOf(ServerStateSchema, state);
      return `server   ${id}  ${name}  ${placedWorlds} worlds, ${placedSeats} seats`;
    }
    case "match": {
      const { id, profile, teams, worldName, serverId } = change.value;
      const count = teams.reduce((sum, { ticketIds }) => sum + ticketIds.length, 0);
      const where = worldName === "" ? "a world being created" : worldName;
      return `match    ${id}  ${profile}  ${count} tickets in ${where} on ${serverId}`;
    }
    case "ticket": {
      const { id, state, error } = change.value;
      const why = error === undefined ? "" : `  ${error.message}`;
      return `ticket   ${id}  ${nameOf(TicketStateSchema, state)}${why}`;
    }
    case "removed":
      return `removed  ${nameOf(WatchResponse_KindSchema, change.value.kind)} ${change.value.id}`;
    case undefined:
      return "a change of a kind that this version does not know";
  }
}

function changeJson(change: WatchResponse["change"]): object {
  switch (change.case) {
    case "profile":
      return { profile: jsonOf(MatchProfileSchema, change.value) };
    case "server":
      return { server: jsonOf(ServerSchema, change.value) };
    case "match":
      return { match: jsonOf(MatchSchema, change.value) };
    case "ticket":
      return { ticket: jsonOf(TicketSchema, withoutTokens(change.value)) };
    case "removed":
      return {
        removed: { kind: nameOf(WatchResponse_KindSchema, change.value.kind), id: change.value.id },
      };
    case undefined:
      return {};
  }
}

/** Returns a ticket without its join tokens, so that a reader of the output cannot join with them. */
function withoutTokens(ticket: Ticket): Ticket {
  const { assignment } = ticket;
  return assignment === undefined
    ? ticket
    : { ...ticket, assignment: { ...assignment, joinToken: "", joinTokens: [] } };
}

function jsonOf<D extends DescMessage>(schema: D, message: MessageShape<D>): object {
  const json = toJson(schema, message);
  return typeof json === "object" && json !== null ? json : {};
}

function nameOf(names: DescEnum, value: number): string {
  return names.value[value]?.localName.toLowerCase() ?? `unknown (${value})`;
}

function orDash(text: string): string {
  return text === "" ? "-" : text;
}

/** Returns the text of an error, with the remedy for an operator. */
function explained({ code, message, origin }: DmEnvRpcError, command: Call): string {
  const { target, kind } = command;
  const where = target.matchmakers.join(", ");
  if (command.kind === "drain" && code === "NOT_FOUND") {
    return `drain: expected the id of a registered server, received "${command.serverId}"; run the command "servers" to list the servers`;
  }
  const isUnanswered = code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
  if (isUnanswered && origin === "connection") {
    return `${kind}: no matchmaker answered at ${where}: ${message}; check that the matchmaker runs, and that --matchmaker is its address`;
  }
  switch (code) {
    case "UNAUTHENTICATED":
    case "PERMISSION_DENIED":
      return `${kind}: ${message}; give an operator's token with --token FILE, or a certificate with --cert and --key`;
    case "UNIMPLEMENTED":
      return `${kind}: expected a matchmaker at ${where}, received an answer from another kind of server: ${message}; check the address (--matchmaker)`;
    default:
      return `${kind}: ${message}`;
  }
}
