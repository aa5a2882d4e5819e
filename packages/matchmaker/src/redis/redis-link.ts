// SPDX-License-Identifier: Apache-2.0
import { messageOf, toError } from "@dm-env-rpc/transport/internal";
import { createClient } from "redis";
import { StoreError } from "../store/store.ts";
import type { Script } from "./scripts.ts";

/** What Redis answers to a script. */
export type Reply = string | number | null | readonly Reply[];

/** Two connections to one Redis: for commands, and for what is published. */
export interface RedisLink {
  /** @throws StoreError `unavailable` when no answer comes. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<Reply>;
  /** @throws StoreError `unavailable` when no answer comes. */
  command(args: readonly string[]): Promise<Reply>;
  close(): Promise<void>;
}

/** How a link is made. */
export interface RedisLinkOptions {
  readonly url: string;
  readonly channel: string;
  readonly connectMs: number;
  readonly commandMs: number;
  /** Something was published, or may have been while nobody listened. */
  readonly onNews: () => void;
  /** A connection is lost, and made again. */
  readonly onError: (error: Error) => void;
}

const maxWaitingCommands = 10_000;
const maxReconnectMs = 1_000;

/** @throws StoreError `unavailable` when Redis does not answer within `connectMs`. */
export async function openRedis(options: RedisLinkOptions): Promise<RedisLink> {
  const { url, channel, connectMs, commandMs, onNews, onError } = options;
  /** At first there is one attempt; a connection that was there is made again for ever. */
  let isLasting = false;
  const make = () => {
    let isDown = false;
    const client = createClient({
      url,
      // What cannot be sent now is an error now: the director tries again by itself.
      disableOfflineQueue: true,
      commandsQueueMaxLength: maxWaitingCommands,
      pingInterval: 10_000,
      socket: {
        connectTimeout: connectMs,
        reconnectStrategy: (retries) =>
          isLasting && Math.min(20 * 2 ** Math.min(retries, 10), maxReconnectMs),
      },
    });
    client.on("ready", () => {
      isDown = false;
    });
    client.on("error", (error: unknown) => {
      // Once, and not for each attempt to come back.
      if (!isDown && isLasting) onError(toError(error));
      isDown = true;
    });
    return client;
  };
  const client = make();
  const subscriber = make();
  const destroy = (): void => {
    isLasting = false;
    for (const each of [client, subscriber]) if (each.isOpen) each.destroy();
  };
  try {
    await inTime(
      Promise.all([client.connect(), subscriber.connect()]).then(() =>
        subscriber.subscribe(channel, onNews),
      ),
      connectMs,
    );
  } catch (error) {
    destroy();
    throw unavailable(error, `Redis at ${withoutPassword(url)}`);
  }
  isLasting = true;
  subscriber.on("ready", onNews);
  client.on("ready", onNews);

  const command = async (args: readonly string[]): Promise<Reply> => {
    try {
      return (await inTime(client.sendCommand([...args]), commandMs)) as Reply;
    } catch (error) {
      if (isNoScript(error)) throw error;
      throw unavailable(error, `Redis at ${withoutPassword(url)}`);
    }
  };
  return {
    command,
    async run({ sha, source }, keys, args) {
      const rest = [String(keys.length), ...keys, ...args];
      try {
        return await command(["EVALSHA", sha, ...rest]);
      } catch (error) {
        if (!isNoScript(error)) throw error;
        return await command(["EVAL", source, ...rest]);
      }
    },
    async close() {
      destroy();
    },
  };
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

function unavailable(error: unknown, what: string): StoreError {
  return new StoreError(
    "unavailable",
    `${what} does not answer: ${messageOf(error) || "no reason given"}`,
    {
      cause: error,
    },
  );
}

/** The address as it may be shown. */
function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@/]*@/, "//");
}

async function inTime<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
