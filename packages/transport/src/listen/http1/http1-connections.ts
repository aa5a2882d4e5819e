// SPDX-License-Identifier: Apache-2.0
import type { Socket } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { NetworkCounts } from "../../internal/counts/network-counts.ts";
import type { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { peerOfSocket } from "../requests/process-call.ts";

/** Time for a refused client to send its request, in ms. The response to the request is the refusal. */
const farewellMs = 1_000;

/** Limits of HTTP/1.1 connections, shared with HTTP/2 connections and WebSockets. */
export interface Http1Limits {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** Number of connections from each network, over all protocols and ports. */
  readonly byNetwork: NetworkCounts;
  /** Counts refused connections. */
  readonly refusals: RefusalCounts;
  readonly onError: (error: Error) => void;
}

/**
 * The open HTTP/1.1 connections of a listener. A refused client receives the error as the response to its request. If
 * the request opens a WebSocket, the client receives a close code instead, because a page can read nothing else.
 */
export class Http1Connections {
  readonly #limits: Http1Limits;
  /** For each counted connection, the function that stops counting it. */
  readonly #counted = new Map<Socket, () => void>();
  /** For each refused connection, the reason. */
  readonly #refused = new WeakMap<Socket, string>();

  constructor(limits: Http1Limits) {
    this.#limits = limits;
  }

  /** Counts a connection, or refuses it. */
  add(socket: Socket): void {
    const { address } = peerOfSocket(socket);
    const limit = this.#limitMet(address);
    if (limit !== undefined) {
      this.#refuse(socket, address, limit);
      return;
    }
    this.#counted.set(socket, this.#limits.byNetwork.add(address));
    socket.once("close", () => this.release(socket));
  }

  /** Returns why a connection is refused; undefined if the connection is admitted. */
  refusalOf(socket: Socket): string | undefined {
    return this.#refused.get(socket);
  }

  /** Stops counting a connection, because it has closed or counts as a WebSocket. */
  release(socket: Socket): void {
    this.#counted.get(socket)?.();
    this.#counted.delete(socket);
    this.#refused.delete(socket);
  }

  #limitMet(address: string): "maxConnections" | "maxConnectionsPerAddress" | undefined {
    const { maxConnections, maxConnectionsPerAddress, byNetwork } = this.#limits;
    if (byNetwork.total >= maxConnections) {
      return "maxConnections";
    }
    return byNetwork.of(address) >= maxConnectionsPerAddress
      ? "maxConnectionsPerAddress"
      : undefined;
  }

  #refuse(
    socket: Socket,
    address: string,
    limit: "maxConnections" | "maxConnectionsPerAddress",
  ): void {
    const most = this.#limits[limit];
    this.#limits.refusals.count(limit);
    this.#refused.set(socket, `${limit}: at most ${most}; try again later`);
    this.#limits.onError(
      new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `connection of ${address} refused: expected at most ${most} (${limit}), received one more`,
        { origin: "connection" },
      ),
    );
    setTimeout(() => {
      if (this.#refused.has(socket)) {
        socket.destroy();
      }
    }, farewellMs).unref();
  }
}
