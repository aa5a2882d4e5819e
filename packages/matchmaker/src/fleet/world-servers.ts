// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { BlockList, isIPv6 } from "node:net";
import { type Connection, connect, isRefusal } from "@dm-env-rpc/client";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import { type OpenTls, parseAddress } from "@dm-env-rpc/transport";
import { shorten } from "@dm-env-rpc/transport/internal";
import { detached } from "@dm-env-rpc/transport/internal/tracing";
import type { Profile } from "../profiles/profile.ts";

/** An environment server to call. */
export interface ServerTarget {
  readonly id: string;
  readonly address: string;
}

/** Creates, resets and destroys worlds on environment servers. */
export interface WorldServers extends AsyncDisposable {
  /**
   * Checks that a dm_env_rpc server answers at an address; rejects otherwise.
   *
   * @throws DmEnvRpcError INVALID_ARGUMENT for a Unix domain socket or a link-local address.
   */
  check(server: ServerTarget, timeoutMs: number): Promise<void>;
  /**
   * Returns true if the server at an address is the given server: it accepts the matchmaker's token for the
   * given server.
   */
  isThere(server: ServerTarget, timeoutMs: number): Promise<boolean>;
  /**
   * Creates a world and returns its name.
   *
   * @param worldType Type of the world, if the server has several.
   * @param metadata Metadata that continues the trace of a match. A create with metadata uses a new stream.
   */
  create(
    server: ServerTarget,
    settings: Profile["settings"],
    worldType: string | undefined,
    timeoutMs: number,
    metadata?: Metadata,
  ): Promise<string>;
  /** Destroys a world. */
  destroy(server: ServerTarget, worldName: string, timeoutMs: number): Promise<void>;
  /** Resets a world, for all of its agents. */
  reset(server: ServerTarget, worldName: string, timeoutMs: number): Promise<void>;
  /** Closes the connections to a server that is gone. */
  forget(serverId: string): void;
  /** Closes all connections to servers. */
  close(): Promise<void>;
}

/** Metadata of a stream. */
type Metadata = Readonly<Record<string, string>>;

/** Options of `networkServers`. */
export interface NetworkServersOptions {
  /** The matchmaker's token for a server, sent as `authorization: Bearer`. */
  readonly operatorToken?: ((server: ServerTarget) => Promise<string>) | undefined;
  /** TLS of connections to servers with `https://` addresses. */
  readonly tls?: OpenTls | undefined;
}

/** Maximum size of an answer, in bytes. Answers to the requests of a matchmaker have at most the name of a world. */
const maxAnswerBytes = 64 * 1024;

/** Codecs of connections to servers, with a small budget of work for answers. */
const answerCodecs = {
  request: createRequestCodec(),
  response: createResponseCodec({ borrowScalars: true, maxMessageWork: 2 ** 14 }),
};

/**
 * Accesses environment servers over the network. All creates without metadata share one connection to each
 * server. Each destroy or reset opens its own connection, because the call may block.
 */
export function networkServers(options: NetworkServersOptions = {}): WorldServers {
  const shared = new Map<string, { address: string; connection: Promise<Connection> }>();

  const connectTo = async (
    { address }: ServerTarget,
    timeoutMs: number,
    metadata: Metadata = {},
  ): Promise<Connection> =>
    // Connects outside the active trace, because that trace belongs to the caller that started the matchmaker or
    // the tick.
    await detached(() => {
      refuseUnixSocket(address);
      return connect(address, {
        connectTimeoutMs: timeoutMs,
        maxMessageBytes: maxAnswerBytes,
        codecs: answerCodecs,
        ...(options.tls === undefined ? {} : { tls: options.tls }),
        metadata,
        checkIp: (ip) => refuseCloudServices(ip, address),
      });
    });
  const open = async (
    server: ServerTarget,
    timeoutMs: number,
    metadata: Metadata = {},
  ): Promise<Connection> => {
    const token = await options.operatorToken?.(server);
    const own = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return await connectTo(server, timeoutMs, { ...metadata, ...own });
  };
  const drop = (serverId: string): void => {
    const known = shared.get(serverId);
    shared.delete(serverId);
    known?.connection.then(
      (opened) => opened.close({ timeoutMs: 0 }),
      () => {},
    );
  };
  const sharedConnection = (server: ServerTarget, timeoutMs: number): Promise<Connection> => {
    const known = shared.get(server.id);
    if (known?.address === server.address) {
      return known.connection;
    }
    // The server has registered with another address in the meantime.
    drop(server.id);
    const opening = open(server, timeoutMs);
    shared.set(server.id, { address: server.address, connection: opening });
    const forgetIt = (): void => {
      if (shared.get(server.id)?.connection === opening) {
        shared.delete(server.id);
      }
    };
    opening.then((connection) => connection.closed.then(forgetIt), forgetIt);
    return opening;
  };
  const alone = async <T>(
    server: ServerTarget,
    timeoutMs: number,
    use: (connection: Connection) => Promise<T>,
    metadata?: Metadata,
  ): Promise<T> => {
    await using connection = await open(server, timeoutMs, metadata);
    return await use(connection);
  };
  /** Sends one request with a time limit. */
  const ask = async (
    server: ServerTarget,
    timeoutMs: number,
    question: (connection: Connection, call: { readonly timeoutMs: number }) => Promise<void>,
    connectIt = open,
  ): Promise<void> => {
    const endsMs = performance.now() + timeoutMs;
    const connection = await connectIt(server, timeoutMs);
    try {
      await question(connection, { timeoutMs: Math.max(1, endsMs - performance.now()) });
    } finally {
      await connection.close({ timeoutMs: 0 });
    }
  };
  const close = async (): Promise<void> => {
    const all = [...shared.values()];
    shared.clear();
    await Promise.allSettled(all.map(async ({ connection }) => (await connection).close()));
  };

  return {
    async check(server, timeoutMs) {
      // Any answer to a harmless request shows that a dm_env_rpc server listens here. The call carries no
      // token, because the server's identity is not verified yet.
      try {
        await ask(
          server,
          timeoutMs,
          (connection, call) => connection.leave(call),
          (target, ms) => connectTo(target, ms),
        );
      } catch (error) {
        if (!isRefusal(error)) {
          throw error;
        }
      }
    },
    async isThere(server, timeoutMs) {
      // Another server refuses the token before it looks up the world, and so does another run of this server.
      const nowhere = randomUUID();
      try {
        await ask(server, timeoutMs, (connection, call) => connection.destroyWorld(nowhere, call));
        return true;
      } catch (error) {
        return isGone(error);
      }
    },
    async create(server, settings, worldType, timeoutMs, metadata = {}) {
      const unpacked = Object.fromEntries(
        Object.entries(settings).map(([name, setting]) => [name, unpackTensor(setting)]),
      );
      const create = (connection: Connection): Promise<string> =>
        connection.createWorld({
          settings: worldType === undefined ? unpacked : { ...unpacked, world_type: worldType },
          timeoutMs,
        });
      // The metadata of a stream belongs to all of its requests, so a stream has one trace.
      return Object.keys(metadata).length > 0
        ? await alone(server, timeoutMs, create, metadata)
        : await create(await sharedConnection(server, timeoutMs));
    },
    destroy: (server, worldName, timeoutMs) =>
      alone(server, timeoutMs, (connection) => connection.destroyWorld(worldName, { timeoutMs })),
    reset: (server, worldName, timeoutMs) =>
      alone(server, timeoutMs, (connection) => connection.resetWorld(worldName, { timeoutMs })),
    forget: drop,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Link-local addresses, where clouds have services that trust every caller: IPv4, IPv4 through NAT64 (RFC 6052), and IPv6. */
const linkLocal = new BlockList();
linkLocal.addSubnet("169.254.0.0", 16, "ipv4");
linkLocal.addSubnet("64:ff9b::a9fe:0", 112, "ipv6");
linkLocal.addSubnet("fe80::", 10, "ipv6");

/** Addresses of such services that are not link-local, also through NAT64. */
const metadataServices = new BlockList();
metadataServices.addSubnet("fd00:ec2::", 32, "ipv6"); // Amazon EC2 and EKS.
metadataServices.addAddress("fd20:ce::254", "ipv6"); // Google Compute Engine.
const ipv4Services = ["168.63.129.16", "100.100.100.200", "192.0.0.192"]; // Microsoft Azure, Alibaba Cloud, Oracle Cloud.
for (const ip of ipv4Services) {
  metadataServices.addAddress(ip, "ipv4");
  metadataServices.addAddress(`64:ff9b::${ip}`, "ipv6");
}

/**
 * Refuses an IP address of the cloud's own services. Called for each connection, because a name may resolve to another
 * address each time.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a link-local address, or that of a metadata service.
 */
function refuseCloudServices(ip: string, address: string): void {
  const [host = ""] = ip.split("%");
  const family = isIPv6(host) ? "ipv6" : "ipv4";
  if (linkLocal.check(host, family)) {
    throw unreachableForAgents(address, "is link-local");
  }
  if (metadataServices.check(host, family)) {
    throw unreachableForAgents(address, "is the metadata service of a cloud");
  }
}

/** @throws DmEnvRpcError INVALID_ARGUMENT for a Unix domain socket, which is a file of the matchmaker's own machine. */
function refuseUnixSocket(address: string): void {
  if (parseAddress(address).path !== undefined) {
    throw unreachableForAgents(address, "is a Unix domain socket");
  }
}

/** Creates the error for an address that agents cannot reach, but the matchmaker's machine might. */
function unreachableForAgents(address: string, why: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `address: expected an address that agents can reach, received "${shorten(address)}", which ${why}; register the address under which the matchmaker and the agents reach the server`,
    // The server did not refuse anything, so the error says nothing about its worlds.
    { origin: "client" },
  );
}

/**
 * Returns the cause of a failed create:
 *
 * - `settings`: every server would refuse the settings.
 * - `world`: the next attempt may succeed.
 * - `server`: the server cannot create worlds now.
 */
export function faultOf(error: unknown): "settings" | "world" | "server" {
  if (!isRefusal(error)) {
    return "server";
  }
  switch (error.code) {
    case "INVALID_ARGUMENT":
      return "settings";
    case "UNAVAILABLE":
    case "RESOURCE_EXHAUSTED":
    case "ALREADY_EXISTS":
    case "ABORTED":
    case "CANCELLED":
    case "PERMISSION_DENIED":
    case "UNAUTHENTICATED":
      return "server";
    default:
      return "world";
  }
}

/** Returns true if an error reports that the world does not exist. */
export function isGone(error: unknown): boolean {
  return isRefusal(error) && error.code === "NOT_FOUND";
}

/** Returns true if an error reports that a server did not answer. */
export function isUnreachable(error: unknown): boolean {
  return (
    isDmEnvRpcError(error) &&
    !isRefusal(error) &&
    (error.code === "UNAVAILABLE" || error.code === "DEADLINE_EXCEEDED")
  );
}
