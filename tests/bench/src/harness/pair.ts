// SPDX-License-Identifier: Apache-2.0
import { type Child, type ChildOptions, startNode } from "./child.ts";

/** A server and a client of their own for one measurement. */
export interface Pair extends AsyncDisposable {
  readonly server: Child;
  readonly client: Child;
  readonly port: number;
  /** Opens connections of the client to the server. */
  connect(group: string, connections: number, inFlight?: number, peer?: string): Promise<void>;
}

/** Starts a server in Node that serves a load, and a client. */
export async function startPair(
  options: ChildOptions,
  peers: { readonly server: string; readonly client: string },
  load: string,
): Promise<Pair> {
  const server = startNode(options, `${peers.server}-server`);
  const client = startNode(options, `${peers.client}-client`);
  const close = async (): Promise<void> => {
    await Promise.all([client.close(), server.close()]);
  };
  try {
    const { port } = await server.ask("serve", { peer: peers.server, load });
    return {
      server,
      client,
      port,
      async connect(group, connections, inFlight = 1, peer = peers.client) {
        await client.ask("connect", { group, peer, load, port, connections, inFlight });
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
