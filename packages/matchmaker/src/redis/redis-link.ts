// SPDX-License-Identifier: Apache-2.0

import type { OpenTls } from "@dm-env-rpc/transport";
import { messageOf, type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import { createClient, ErrorReply } from "redis";
import { isStoreError, StoreError } from "../store/store.ts";
import { inTime } from "./in-time.ts";
import type { Script } from "./scripts.ts";

/** Reply of Redis to a script. */
export type Reply = string | number | null | readonly Reply[];

/**
 * Three connections to one Redis: one for scripts and other commands, one for lookups, and one for published
 * messages.
 */
export interface RedisLink {
  /**
   * @throws StoreError `unavailable` if Redis does not answer or answers with an error.
   * @throws StoreError `full` if Redis has no memory left.
   */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<Reply>;
  /** @throws StoreError `unavailable` if Redis does not answer or answers with an error. */
  command(args: readonly string[]): Promise<Reply>;
  /**
   * Sends a short command that only reads. It does not wait for the scripts before it, so it may be answered
   * first.
   *
   * @throws StoreError `unavailable` if Redis does not answer or answers with an error.
   */
  lookUp(args: readonly string[]): Promise<Reply>;
  close(): Promise<void>;
}

/** Prepares a new connection: runs scripts before all other commands. */
export type Prepare = (run: RedisLink["run"], info: ReadonlyMap<string, string>) => Promise<void>;

/** Options of a link. */
export interface RedisLinkOptions {
  readonly url: string;
  /** For `rediss://`. */
  readonly tls: OpenTls | undefined;
  /**
   * Called on every new connection, with the reply of Redis to INFO. Commands wait for this call. If the
   * call fails, the waiting commands fail with its error, and the next command repeats the call.
   */
  readonly prepare: Prepare;
  readonly channel: string;
  readonly connectMs: number;
  /** Time limit of a command, and the interval of the pings to each connection. */
  readonly commandMs: number;
  /** Clock of the time limits of commands and of the first connection. */
  readonly time: TimeSource;
  /** Called when a message was published, or may have been published during a disconnection. */
  readonly onNews: () => void;
  /** Called when a connection is lost. The link reconnects by itself. */
  readonly onError: (error: Error) => void;
}

const maxWaitingCommands = 10_000;
const maxReconnectMs = 1_000;

/**
 * Connects to a Redis.
 *
 * @throws StoreError `unavailable` if Redis refuses the connection or does not answer within `connectMs`.
 * @throws StoreError `unsuitable` if Redis evicts keys, or cannot be used by a matchmaker.
 */
export async function openRedis(options: RedisLinkOptions): Promise<RedisLink> {
  const { url, tls, channel, connectMs, commandMs, time, onNews, onError } = options;
  const where = `Redis at ${withoutPassword(url)}`;
  /** True from the first connection until the link is closed. Meanwhile, lost connections are restored. */
  let isLasting = false;
  const make = () => {
    let isDown = false;
    const client = createClient({
      url,
      // A command that cannot be sent fails immediately, because the director retries.
      disableOfflineQueue: true,
      commandsQueueMaxLength: maxWaitingCommands,
      // `inTime` limits the time of a command. The client's own limit would create an AbortSignal for each command.
      commandOptions: { timeout: 0 },
      pingInterval: commandMs,
      socket: {
        ...(url.startsWith("rediss:") ? { tls: true, ...socketTls(tls) } : {}),
        connectTimeout: connectMs,
        // Limits a handshake, and a ping on a connection that sends nothing else. Each write starts this time anew, so a
        // command that gets no answer needs `reconnect`.
        socketTimeout: 2 * commandMs,
        reconnectStrategy: (retries) =>
          isLasting && Math.min(20 * 2 ** Math.min(retries, 10), maxReconnectMs),
      },
    });
    client.on("ready", () => {
      isDown = false;
    });
    client.on("error", (error: unknown) => {
      // Reports a loss only once, even if many attempts to reconnect fail.
      if (!isDown && isLasting) {
        onError(toError(error));
      }
      isDown = true;
    });
    return client;
  };
  const client = make();
  const reader = make();
  const subscriber = make();
  const destroy = (): void => {
    isLasting = false;
    for (const each of [client, reader, subscriber]) {
      if (each.isOpen) {
        each.destroy();
      }
    }
  };
  try {
    await inTime(
      Promise.all([client.connect(), reader.connect(), subscriber.connect()]).then(() =>
        subscriber.subscribe(channel, onNews),
      ),
      connectMs,
      time,
    );
  } catch (error) {
    destroy();
    throw unavailable(error, where);
  }
  isLasting = true;

  /**
   * Replaces a connection that does not answer. If its host is gone, the kernel would keep the connection for many
   * minutes.
   */
  const reconnect = (connection: typeof client, late: Error): void => {
    if (!isLasting || !connection.isReady) {
      return;
    }
    connection.destroy();
    connection.emit("error", late);
    // Failed attempts are reported as errors and repeated, until the link is closed.
    connection.connect().catch(() => {});
  };
  const send = async (args: readonly string[], connection = client): Promise<Reply> => {
    try {
      const answer = connection.sendCommand<Reply>([...args]);
      return await inTime(answer, commandMs, time, (late) => reconnect(connection, late));
    } catch (error) {
      if (isReply(error, "NOSCRIPT")) {
        throw error;
      }
      if (isReply(error, "OOM")) {
        throw full(error, where);
      }
      throw unavailable(error, where);
    }
  };
  const runWith =
    (sendIt: RedisLink["command"]): RedisLink["run"] =>
    async ({ sha, source }, keys, args) => {
      const rest = [String(keys.length), ...keys, ...args];
      try {
        return await sendIt(["EVALSHA", sha, ...rest]);
      } catch (error) {
        if (!isReply(error, "NOSCRIPT")) {
          throw error;
        }
        return await sendIt(["EVAL", source, ...rest]);
      }
    };
  const prepare = async (): Promise<void> => {
    const info = infoOf(String(await send(["INFO"])));
    checkSuitable(info, where);
    await options.prepare(runWith(send), info);
  };
  /** Preparation of the current connection. */
  let preparing: Promise<void> | undefined;
  const prepared = (): Promise<void> => {
    if (preparing !== undefined) {
      return preparing;
    }
    const attempt = prepare();
    preparing = attempt;
    attempt.catch(() => {
      if (preparing === attempt) {
        preparing = undefined;
      }
    });
    return attempt;
  };
  const command = async (args: readonly string[]): Promise<Reply> => {
    await prepared();
    return await send(args);
  };
  subscriber.on("ready", onNews);
  client.on("ready", () => {
    preparing = undefined;
    onNews();
  });
  try {
    await prepared();
  } catch (error) {
    destroy();
    throw error;
  }
  return {
    command,
    run: runWith(command),
    async lookUp(args) {
      await prepared();
      return await send(args, reader.isReady ? reader : client);
    },
    async close() {
      destroy();
    },
  };
}

/** Returns the fields of INFO, by name. */
function infoOf(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\r\n").filter((line) => line.includes(":"));
  return new Map(
    lines.map((line) => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1)];
    }),
  );
}

const leastVersion = 7;

/**
 * Checks that Redis does not evict keys, and that a matchmaker can use it. Does not check persistence.
 *
 * @throws StoreError `unsuitable` with the remedy.
 */
function checkSuitable(info: ReadonlyMap<string, string>, where: string): void {
  const refuse = (text: string): StoreError => new StoreError("unsuitable", `${where} ${text}`);
  const mode = info.get("redis_mode") ?? "standalone";
  if (mode === "sentinel") {
    throw refuse(
      "is a Sentinel: expected the Redis that it watches; give the address of the primary, such as a DNS name or a proxy that follows it",
    );
  }
  if (mode === "cluster") {
    throw refuse(
      "is a node of a Redis Cluster: expected a standalone Redis, because a commit needs all of its keys on one node; give the address of a Redis with cluster-enabled no",
    );
  }
  const version = info.get("redis_version") ?? "unknown";
  if (!(Number.parseInt(version, 10) >= leastVersion)) {
    throw refuse(`is too old: expected version ${leastVersion} or later, received ${version}`);
  }
  if (info.get("role") === "slave") {
    throw refuse(
      "is a read-only copy (replica): expected a primary; give the address of the primary",
    );
  }
  const policy = info.get("maxmemory_policy") ?? "noeviction";
  if (policy !== "noeviction") {
    throw refuse(
      `evicts keys when its memory is full: expected maxmemory-policy noeviction, received ${policy}; set it with "CONFIG SET maxmemory-policy noeviction" and in redis.conf`,
    );
  }
}

function socketTls(tls: OpenTls | undefined): Record<string, unknown> {
  if (tls === undefined) {
    return {};
  }
  const { serverName, ...rest } = tls;
  return { ...rest, ...(serverName === undefined ? {} : { servername: serverName }) };
}

/** Returns true if Redis replied with an error of this kind. The kind is the prefix of the error's message. */
function isReply(error: unknown, kind: string): boolean {
  return error instanceof Error && error.message.startsWith(kind);
}

function full(error: unknown, where: string): StoreError {
  return new StoreError(
    "full",
    `${where} has no memory left (maxmemory): new tickets, servers and profiles are refused until others have ended; raise maxmemory`,
    { cause: error },
  );
}

function unavailable(error: unknown, what: string): StoreError {
  if (isStoreError(error)) {
    return error;
  }
  const problem = error instanceof ErrorReply ? "answered with an error" : "does not answer";
  return new StoreError(
    "unavailable",
    `${what} ${problem}: ${messageOf(error) || "no reason given"}`,
    { cause: error },
  );
}

/** Returns the address without its password, for errors. */
function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@/]*@/, "//");
}
