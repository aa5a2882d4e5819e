// SPDX-License-Identifier: Apache-2.0

import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type {
  RegisterServerRequest,
  RegistryService,
  RenewServerRequest,
  WorldReport,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { parseAddress } from "@dm-env-rpc/transport";
import { shorten, toError } from "@dm-env-rpc/transport/internal";
import { invalid, notFound, overloaded } from "../errors/errors.ts";
import { takenId } from "../errors/taken-id.ts";
import type { WorldServers } from "../fleet/world-servers.ts";
import type { Report, ReportedWorld, ServerRecord } from "../model/model.ts";
import { checkLabels } from "../profiles/labels.ts";
import { checkName, checkSecret, maxNameLength, maxWorldTypeLength } from "../profiles/names.ts";
import { put } from "../replica/replica.ts";
import type { Change } from "../store/store.ts";
import type { TokenIssuer } from "../tokens/issuer.ts";
import { callerOf } from "./authorize.ts";
import type { ServiceContext } from "./frontend.ts";
import { tooManyWorlds } from "./limits/request-entries.ts";
import { ServerBudget, serverBytes, worldsBytes } from "./limits/server-budget.ts";
import { duration, time } from "./messages.ts";
import { hashOf, isSecretOf } from "./secrets.ts";
import { ServerAddresses } from "./server-addresses.ts";

/** Dependencies of the registry. */
export interface RegistryContext extends ServiceContext {
  readonly servers: WorldServers;
  readonly issuer: TokenIssuer;
}

const maxWorldTypes = 1_000;
/** Enough for a URL with the longest host name. */
const maxAddressLength = 300;

/** The service for environment servers. */
export function registryService(context: RegistryContext): ServiceImpl<typeof RegistryService> {
  const { replica, settings, issuer, emit } = context;
  const addresses = new ServerAddresses(replica);
  const budget = new ServerBudget(replica);
  /** Ids of the servers whose addresses are being checked. */
  const checking = new Set<string>();
  const terms = () => ({
    lease: duration(settings.serverLeaseMs),
    serverTime: time(replica.now()),
    jwks: issuer.jwks,
  });
  return {
    async registerServer(request, call) {
      checkRequest(context, request);
      const asker = askerOf(call, request);
      const { serverId, address } = request;
      checkCount(context, budget, serverId);
      const worlds = request.worlds.map(reportedWorld);
      const bytes = serverBytes({ ...request, id: serverId }) + worldsBytes(worlds);
      const reserved = reserve(context, budget, serverId, bytes, asker);
      const registered = budget.register(serverId);
      try {
        await replica.refresh([{ kind: "server", id: serverId }]);
        checkAsker(replica.get("server", serverId)?.value, asker);
        const checked = startChecks(checking, serverId);
        try {
          await callBack(context, request);
          await checkRivals(context, addresses, request);
        } finally {
          checked();
        }
        const epoch = await register(context, addresses, request, worlds, asker, call.signal);
        emit({ kind: "server-registered", serverId, address });
        return { epoch: BigInt(epoch), ...terms() };
      } finally {
        registered();
        reserved();
      }
    },
    async renewServer(request, call) {
      checkIdAndSecret(request);
      checkWorlds(context, request.worlds);
      checkLoad(request.load);
      const worlds = request.worlds.map(reportedWorld);
      const asker = askerOf(call, request);
      const renewed = reserve(context, budget, request.serverId, worldsBytes(worlds), asker);
      try {
        await renew(context, request, worlds, asker, call.signal);
        return terms();
      } finally {
        renewed();
      }
    },
    async drainServer(request, call) {
      checkIdAndSecret(request);
      await setState(context, request.serverId, "draining", askerOf(call, request));
      return {};
    },
    async deregisterServer(request, call) {
      checkIdAndSecret(request);
      await setState(context, request.serverId, "gone", askerOf(call, request));
      return {};
    },
  };
}

/** Checks the texts that a call holds while it waits for the store. */
function checkIdAndSecret({
  serverId,
  serverSecret,
}: Pick<RenewServerRequest, "serverId" | "serverSecret">): void {
  checkName("server_id", serverId);
  checkSecret("server_secret", serverSecret);
}

function checkRequest(
  { settings }: Pick<RegistryContext, "settings">,
  request: RegisterServerRequest,
): void {
  const { serverId, address, capacity, worldTypes, worlds } = request;
  if (serverId === "" || serverId.length > maxNameLength) {
    throw invalid(
      "server_id",
      `an id of 1 to ${maxNameLength} characters, a different one for each run of the process`,
      `"${shorten(serverId)}"`,
    );
  }
  checkSecret("server_secret", request.serverSecret);
  if (address.length > maxAddressLength) {
    throw invalid("address", `at most ${maxAddressLength} characters`, String(address.length));
  }
  parseAddress(address);
  if (capacity === undefined || capacity.maxWorlds === 0 || capacity.maxAgents === 0) {
    throw invalid(
      "capacity",
      "room for at least one world and one agent",
      `${capacity?.maxWorlds ?? 0} worlds and ${capacity?.maxAgents ?? 0} agents`,
    );
  }
  checkName("region", request.region);
  checkLabels("labels", request.labels);
  checkLoad(request.load);
  if (worldTypes.length === 0 || worldTypes.length > maxWorldTypes) {
    throw invalid("world_types", `1 to ${maxWorldTypes}`, String(worldTypes.length));
  }
  for (const type of worldTypes) {
    checkName("world_types", type, maxWorldTypeLength);
  }
  checkWorlds({ settings }, worlds);
}

/**
 * Refuses a new server if others use up `maxServers`, including those whose registrations are being processed.
 *
 * @throws ConnectError RESOURCE_EXHAUSTED.
 */
function checkCount(
  { replica, settings }: RegistryContext,
  budget: ServerBudget,
  serverId: string,
): void {
  if (
    replica.get("server", serverId) === undefined &&
    budget.serversBeside(serverId) >= settings.maxServers
  ) {
    throw overloaded(
      `too many servers: expected at most ${settings.maxServers}; wait until one has left (limit: maxServers)`,
    );
  }
}

/**
 * Starts the checks of a server's address, which may take seconds, unless those of another registration of the server
 * have not ended.
 *
 * @returns A function to call when the checks have ended.
 * @throws DmEnvRpcError ABORTED.
 */
function startChecks(checking: Set<string>, serverId: string): () => void {
  if (checking.has(serverId)) {
    throw new DmEnvRpcError(
      "ABORTED",
      `server_id: expected one registration of server "${shorten(serverId)}" at a time, received another one while the address of the first is being checked; register again later`,
    );
  }
  checking.add(serverId);
  return () => void checking.delete(serverId);
}

function checkWorlds(
  { settings }: Pick<RegistryContext, "settings">,
  worlds: readonly WorldReport[],
): void {
  if (worlds.length > settings.maxWorldsPerServer) {
    throw tooManyWorlds(settings);
  }
  for (const { name, type, ticketIds, leftTicketIds } of worlds) {
    checkName("name of a world", name);
    checkName("type of a world", type);
    for (const id of ticketIds) {
      checkName("ticket_ids of a world", id);
    }
    for (const id of leftTicketIds) {
      checkName("left_ticket_ids of a world", id);
    }
  }
}

/**
 * Reserves room for a server and its data until the returned function is called. While all servers use up
 * `maxServersBytes`, or those of the caller `maxServersBytesPerCaller`, a known server may still use its share, so that
 * other servers cannot end its lease.
 *
 * @throws ConnectError RESOURCE_EXHAUSTED.
 */
function reserve(
  { replica, settings }: RegistryContext,
  budget: ServerBudget,
  serverId: string,
  bytes: number,
  { identity, isOperator }: Asker,
): () => void {
  const { maxServersBytes, maxServers, maxServersBytesPerCaller, maxServersPerCaller } = settings;
  const known = replica.get("server", serverId)?.value;
  const share = known === undefined ? 0 : maxServersBytes / maxServers;
  if (bytes > share && budget.bytesBeside(serverId) + bytes > maxServersBytes) {
    throw overloaded(
      `too many bytes of servers and their reports: expected at most ${maxServersBytes}, of which one server needs ${bytes}; run fewer servers or worlds, or try again later (limit: maxServersBytes)`,
    );
  }
  if (identity === undefined || isOperator) {
    return budget.reserve(undefined, serverId, bytes);
  }
  const others = budget.ofCallerBeside(identity, serverId);
  const isOwn = known?.owner === identity;
  if (!isOwn && others.servers >= maxServersPerCaller) {
    throw overloaded(
      `too many servers: expected at most ${maxServersPerCaller} of one caller; wait until one has left (limit: maxServersPerCaller)`,
    );
  }
  const ownShare = isOwn ? maxServersBytesPerCaller / Math.min(maxServersPerCaller, maxServers) : 0;
  if (bytes > ownShare && others.bytes + bytes > maxServersBytesPerCaller) {
    throw overloaded(
      `too many bytes of servers and their reports: expected at most ${maxServersBytesPerCaller} of one caller, of which one server needs ${bytes}; run fewer servers or worlds, or try again later (limit: maxServersBytesPerCaller)`,
    );
  }
  return budget.reserve(identity, serverId, bytes);
}

function checkLoad(load: number | undefined): void {
  if (load !== undefined && !(load >= 0 && load <= 1)) {
    throw invalid("load", "a number from 0 to 1", String(load));
  }
}

/** Checks that the matchmaker itself can reach the address, because agents are sent there. */
async function callBack(
  { servers, settings, emit }: RegistryContext,
  { serverId, address }: RegisterServerRequest,
): Promise<void> {
  try {
    await servers.check({ id: serverId, address }, settings.callbackMs);
  } catch (error) {
    if (isDmEnvRpcError(error) && error.code === "INVALID_ARGUMENT") {
      throw error;
    }
    // The reason is only logged: to a caller, it could reveal open ports of the matchmaker's network.
    emit({ kind: "server-refused", serverId, address, error: toError(error) });
    throw new DmEnvRpcError(
      "FAILED_PRECONDITION",
      `expected a dm_env_rpc server at "${shorten(address)}", received no valid answer within ${settings.callbackMs} ms; register the address under which the matchmaker and the agents reach the server, once it listens`,
    );
  }
}

/** The caller of a method about a server, with the secret that it sent. */
interface Asker {
  /** Undefined unless `authorize` identifies the caller. */
  readonly identity: string | undefined;
  /** True also for every caller if `authorize` is not configured. */
  readonly isOperator: boolean;
  readonly secret: string;
}

function askerOf(
  call: Pick<HandlerContext, "values">,
  { serverSecret: secret }: { readonly serverSecret: string },
): Asker {
  const caller = callerOf(call);
  const isOperator = caller === undefined || caller.roles.includes("operator");
  return { identity: caller?.identity, isOperator, secret };
}

/**
 * Refuses a caller that acts for another caller's server, or for another process's server.
 *
 * @throws ConnectError PERMISSION_DENIED, for which `isTakenId` is true.
 */
function checkAsker(server: ServerRecord | undefined, asker: Asker): void {
  if (server === undefined) {
    return;
  }
  const { id, owner, secretHash } = server;
  if (owner !== undefined && owner !== asker.identity && !asker.isOperator) {
    throw takenId(
      `server_id: expected the caller that registered server "${shorten(id)}", received another caller; give each run of a server an id of its own`,
    );
  }
  if (!isSecretOf(secretHash, asker.secret)) {
    throw takenId(
      `server_secret: expected the secret that server "${shorten(id)}" registered with, received ${asker.secret === "" ? "none" : "another secret"}; give each run of a server an id of its own`,
    );
  }
}

/**
 * Refuses an address at which another registered server answers, unless that server is lost or uses no
 * join tokens. A registration whose server does not answer there, because it restarted or never existed,
 * is replaced.
 */
async function checkRivals(
  { replica, servers, settings }: RegistryContext,
  addresses: ServerAddresses,
  { serverId, address }: RegisterServerRequest,
): Promise<void> {
  for (const id of addresses.at(address)) {
    const value = replica.get("server", id)?.value;
    if (id === serverId || (value?.state !== "serving" && value?.state !== "draining")) {
      continue;
    }
    // Without tokens, servers cannot be distinguished: the latest registration gets the address.
    if (!value.joinTokens || !(await servers.isThere(value, settings.callbackMs))) {
      continue;
    }
    throw new DmEnvRpcError(
      "ALREADY_EXISTS",
      `another server, "${shorten(id)}", is registered at "${shorten(address)}" and answers there; register each server with an address of its own`,
    );
  }
}

async function register(
  { replica }: RegistryContext,
  addresses: ServerAddresses,
  request: RegisterServerRequest,
  worlds: readonly ReportedWorld[],
  asker: Asker,
  signal: AbortSignal,
): Promise<number> {
  const { serverId, address, capacity, worldTypes, joinTokens } = request;
  const { reportNumber, region, labels, load } = request;
  await replica.refresh([
    { kind: "server", id: serverId },
    { kind: "report", id: serverId },
  ]);
  for (;;) {
    checkAsker(replica.get("server", serverId)?.value, asker);
    const [known, report] = [replica.get("server", serverId), replica.get("report", serverId)];
    if (known?.value.state === "gone") {
      throw new DmEnvRpcError(
        "ABORTED",
        `the earlier worlds of server "${shorten(serverId)}" have not ended yet; register again later`,
      );
    }
    // A caller that has aborted this call may have registered elsewhere, with its current worlds.
    signal.throwIfAborted();
    const epoch = (known?.value.epoch ?? 0) + 1;
    const server: ServerRecord = {
      id: serverId,
      address,
      epoch,
      maxWorlds: capacity?.maxWorlds ?? 0,
      maxAgents: capacity?.maxAgents ?? 0,
      worldTypes,
      region: region === "" ? undefined : region,
      labels: Object.keys(labels).length === 0 ? undefined : labels,
      allocated: known?.value.allocated,
      owner: known?.value.owner ?? asker.identity,
      secretHash: hashOf(asker.secret),
      joinTokens,
      state: "serving",
    };
    const changes: Change[] = [
      put("server", serverId, known, server),
      put("report", serverId, report, {
        serverId,
        epoch,
        sequence: (report?.value.sequence ?? 0) + 1,
        number: Number(reportNumber),
        receivedMs: replica.now(),
        worlds,
        load,
      }),
    ];
    // The address now belongs to this server: any other server with this address counts as gone.
    for (const id of addresses.at(address)) {
      const other = replica.get("server", id);
      if (id !== serverId && other !== undefined && other.value.state !== "gone") {
        changes.push(put("server", id, other, { ...other.value, state: "gone" }));
      }
    }
    if (await replica.commit(changes)) {
      return epoch;
    }
  }
}

async function renew(
  { replica }: RegistryContext,
  { serverId, load, ...request }: RenewServerRequest,
  worlds: readonly ReportedWorld[],
  asker: Asker,
  signal: AbortSignal,
): Promise<void> {
  const [epoch, number] = [Number(request.epoch), Number(request.reportNumber)];
  if (replica.get("server", serverId) === undefined) {
    await replica.refresh([
      { kind: "server", id: serverId },
      { kind: "report", id: serverId },
    ]);
  }
  for (;;) {
    const server = replica.get("server", serverId);
    if (server === undefined) {
      throw notFound("server", serverId, "register it again");
    }
    checkAsker(server.value, asker);
    if (server.value.epoch < epoch) {
      await replica.refresh([{ kind: "server", id: serverId }]);
      if ((replica.get("server", serverId)?.value.epoch ?? 0) < epoch) {
        throw outdated(serverId);
      }
      continue;
    }
    const { state } = server.value;
    if (server.value.epoch > epoch || state === "lost" || state === "gone") {
      throw outdated(serverId);
    }
    // A caller that has aborted this call may have sent a newer report elsewhere.
    signal.throwIfAborted();
    const report = replica.get("report", serverId);
    if (number > 0 && number <= (report?.value.number ?? 0)) {
      return;
    }
    const next: Report = {
      serverId,
      epoch,
      sequence: (report?.value.sequence ?? 0) + 1,
      number,
      receivedMs: replica.now(),
      worlds,
      load,
    };
    if (await replica.commit([put("report", serverId, report, next)])) {
      return;
    }
    await replica.refresh([{ kind: "server", id: serverId }]);
  }
}

function outdated(serverId: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `the lease of server "${shorten(serverId)}" has run out, or the server has registered again; register it again, with its worlds`,
  );
}

async function setState(
  { replica }: RegistryContext,
  serverId: string,
  state: "draining" | "gone",
  asker: Asker,
): Promise<void> {
  await replica.refresh([{ kind: "server", id: serverId }]);
  for (;;) {
    const server = replica.get("server", serverId);
    if (server === undefined) {
      if (state === "gone") {
        return;
      }
      throw notFound("server", serverId, "register it first");
    }
    if (!asker.isOperator) {
      checkAsker(server.value, asker);
    }
    if (server.value.state === "gone" || server.value.state === state) {
      return;
    }
    if (await replica.commit([put("server", serverId, server, { ...server.value, state })])) {
      return;
    }
  }
}

function reportedWorld(world: WorldReport): ReportedWorld {
  const { name, type, agents, guests, sequences, joins, premade } = world;
  const { ticketIds: tickets, leftTicketIds: left } = world;
  return { name, type, agents, guests, sequences, tickets, left, joins, premade };
}
