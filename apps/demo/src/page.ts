// SPDX-License-Identifier: Apache-2.0
import { setTimeout } from "node:timers/promises";
import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { SpectatorService, type WatchWorldsResponse } from "@dm-env-rpc/protocol/spectator";
import { pageFiles } from "@dm-env-rpc/server/page";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { listen } from "@dm-env-rpc/transport";

/** A page that shows the worlds of several servers. */
export interface FleetPage extends AsyncDisposable {
  readonly url: string;
  /** True while a browser shows the page, and for two seconds after, so that a reload does not count as closing it. */
  readonly open: boolean;
  /** Adds a server whose worlds are shown. */
  add(address: string): void;
}

type Servers = ReadonlyMap<string, Client<typeof SpectatorService>>;

/** Time that a browser may take to reload the page. */
const reloadMs = 2_000;

/** Time between two lists of worlds. */
const listMs = 500;

/** Serves the page on a free port. It watches the servers only while the page has viewers. */
export async function servePage(): Promise<FleetPage> {
  const servers = new Map<string, Client<typeof SpectatorService>>();
  let viewers = 0;
  let lastViewed = Number.NEGATIVE_INFINITY;
  const watched = async function* <T>(frames: AsyncIterable<T>): AsyncGenerator<T> {
    viewers += 1;
    try {
      yield* frames;
    } finally {
      viewers -= 1;
      lastViewed = performance.now();
    }
  };
  const listener = await listen({
    files: await pageFiles(),
    onStream: (stream) =>
      stream.abort(
        new DmEnvRpcError("UNIMPLEMENTED", "agents join the servers of these worlds, not the page"),
      ),
    routes: (router) => {
      router.service(SpectatorService, {
        watchWorlds: (_request, { signal }) => watched(allWorlds(servers, signal)),
        watchWorld(request, { signal }) {
          const { service, world: name } = find(servers, request.world);
          return watched(service.watchWorld({ ...request, world: name }, { signal }));
        },
      });
    },
  });
  return {
    url: listener.url,
    get open() {
      return viewers > 0 || performance.now() - lastViewed < reloadMs;
    },
    add: (address) => {
      const transport = createGrpcTransport({ baseUrl: `http://${address}` });
      servers.set(address, createClient(SpectatorService, transport));
    },
    [Symbol.asyncDispose]: () => listener.close({ graceMs: 0 }),
  };
}

/** Yields the worlds of all servers, repeatedly. */
async function* allWorlds(servers: Servers, signal: AbortSignal) {
  const latest = new Map<string, WatchWorldsResponse>();
  const followed = new Set<string>();
  while (!signal.aborted) {
    for (const [address, service] of servers) {
      if (!followed.has(address)) {
        followed.add(address);
        void follow(service, signal, (response) => latest.set(address, response)).finally(() => {
          followed.delete(address);
          latest.delete(address);
        });
      }
    }
    const worlds = [...latest].flatMap(([address, response]) =>
      response.worlds.map((world) => ({ ...world, name: nameOf(world.name, address) })),
    );
    yield { timeMs: Date.now(), worlds, worldCount: worlds.length };
    await setTimeout(listMs, undefined, { signal }).catch(() => {});
  }
}

/** Passes each list of a server's worlds to `take`; resolves when the server or the viewer is gone. */
async function follow(
  service: Client<typeof SpectatorService>,
  signal: AbortSignal,
  take: (response: WatchWorldsResponse) => void,
): Promise<void> {
  try {
    for await (const response of service.watchWorlds({ maxRate: 1_000 / listMs }, { signal })) {
      take(response);
    }
  } catch (error) {
    if (!signal.aborted && ConnectError.from(error).code !== Code.Unavailable) {
      throw error;
    }
  }
}

const separator = " at ";

/** Makes a unique name, because several servers may have a world with the same name. */
function nameOf(world: string, address: string): string {
  return `${world}${separator}${address}`;
}

function find(servers: Servers, name: string) {
  const at = name.lastIndexOf(separator);
  const service = servers.get(name.slice(at + separator.length));
  if (at === -1 || service === undefined) {
    throw new ConnectError(
      `unknown world "${name.slice(0, 200)}": expected one of the worlds on the page`,
      Code.NotFound,
    );
  }
  return { service, world: name.slice(0, at) };
}
