// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import {
  backoffMs,
  pause,
  shorten,
  systemTime,
  type TimeSource,
} from "@dm-env-rpc/transport/internal";
import type { ServerAllocator } from "../fleet/allocator.ts";
import { type PostOptions, postJson } from "./post-json.ts";

/** Options of `agonesAllocator`. */
export interface AgonesAllocatorOptions {
  /** URL of the Kubernetes API. In a cluster: `https://kubernetes.default.svc`. */
  readonly url: string;
  /** Namespace of the GameServers. */
  readonly namespace: string;
  /**
   * Returns the bearer token of a service account that may create `gameserverallocations`. Called for
   * each request, because Kubernetes replaces tokens. Default: none.
   */
  readonly token?: (() => string | Promise<string>) | undefined;
  /** Authority that issued the API's certificate, as PEM. Default: the authorities that Node trusts. */
  readonly ca?: string | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/**
 * The label that names the GameServer of a registered server. The server also sets this label on its
 * GameServer, with `SetLabel("server", NAME)` of Agones' SDK, which adds the prefix `agones.dev/sdk-`.
 */
export const gameServerLabel = "agones.dev/sdk-server";

/** Label of GameServers that a matchmaker has allocated. */
const allocatedLabel = "dm-env-rpc/allocated";

/** Maximum number of requests for one allocation. */
const maxAttempts = 6;

/**
 * Creates an allocator for an Agones fleet. It allocates the GameServer that a server names in its
 * label `gameServerLabel`, by creating a GameServerAllocation (`allocation.agones.dev/v1`) through the
 * Kubernetes API. Servers without the label are not allocated. After a conflict with another
 * allocation, and after status 429 or 5xx, the request is repeated with growing delays.
 *
 * @throws TypeError if the URL is malformed.
 *
 * @example
 * import { readFile } from "node:fs/promises";
 *
 * const account = "/var/run/secrets/kubernetes.io/serviceaccount";
 * const matchmaker = await serveMatchmaker({
 *   allocator: agonesAllocator({
 *     url: "https://kubernetes.default.svc",
 *     namespace: "games",
 *     token: () => readFile(`${account}/token`, "utf8"),
 *     ca: await readFile(`${account}/ca.crt`, "utf8"),
 *   }),
 * });
 */
export function agonesAllocator(options: AgonesAllocatorOptions): ServerAllocator {
  const { namespace, time = systemTime } = options;
  const path = `/apis/allocation.agones.dev/v1/namespaces/${encodeURIComponent(namespace)}/gameserverallocations`;
  const url = new URL(`${options.url.replace(/\/+$/, "")}${path}`);

  /**
   * Sends one request.
   *
   * @returns Why the request must be repeated; undefined if the GameServer is allocated.
   */
  const request = async (name: string, post: PostOptions): Promise<string | undefined> => {
    const { code, json } = await postJson(url, allocationOf(name), post);
    if (code !== 200 && code !== 201) {
      const message = field(json, "message");
      const why = typeof message === "string" ? `: ${shorten(message)}` : "";
      if (code === 409 || code === 429 || code >= 500) {
        return `status ${code}${why}`;
      }
      const remedy =
        code === 401 || code === 403
          ? `; grant the service account the verb "create" on gameserverallocations in namespace "${namespace}"`
          : "";
      throw refused(name, `expected status 201, received ${code}${why}${remedy}`);
    }
    const status = field(json, "status");
    const state = field(status, "state");
    if (state === "Contention") {
      return `state ${state}`;
    }
    if (state !== "Allocated") {
      throw refused(
        name,
        `expected a GameServer that is Ready in namespace "${namespace}", received ${String(state)}: the GameServer does not exist there, is starting or ending, or was allocated by another program`,
      );
    }
    const allocated = field(status, "gameServerName");
    if (allocated !== name) {
      throw refused(name, `Agones allocated "${shorten(String(allocated))}" instead`);
    }
    return undefined;
  };

  return {
    async allocate({ labels }, timeoutMs) {
      const name = labels[gameServerLabel];
      if (name === undefined) {
        return false;
      }
      const signal = AbortSignal.timeout(timeoutMs);
      let last: string | undefined;
      for (let attempt = 1; attempt <= maxAttempts; attempt++) {
        await pause(time, backoffMs(attempt), signal);
        const token = (await options.token?.())?.trim();
        last = await request(name, { token, ca: options.ca, signal });
        if (last === undefined) {
          return true;
        }
      }
      throw refused(
        name,
        `expected an allocation within ${maxAttempts} attempts, the last of which received ${last}`,
      );
    },
  };
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function refused(name: string, why: string): DmEnvRpcError {
  const text = `GameServer "${shorten(name)}" cannot be allocated: ${why}`;
  return new DmEnvRpcError("UNAVAILABLE", text, { origin: "connection" });
}

/**
 * Returns the request for a GameServer. The second selector finds the GameServer again if the response
 * to an earlier request was lost; it excludes GameServers that another program has allocated.
 */
function allocationOf(name: string): object {
  const matchLabels = { [gameServerLabel]: name };
  const ours = { [allocatedLabel]: "true" };
  return {
    apiVersion: "allocation.agones.dev/v1",
    kind: "GameServerAllocation",
    spec: {
      selectors: [
        { matchLabels, gameServerState: "Ready" },
        { matchLabels: { ...matchLabels, ...ours }, gameServerState: "Allocated" },
      ],
      metadata: { labels: ours },
    },
  };
}
