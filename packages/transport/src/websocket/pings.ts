// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import { isTooLarge } from "./ws-socket.ts";

/** Pings the peer of a WebSocket of the library `ws`, and cuts the connection if a ping is not answered. */
export class Pings {
  readonly #webSocket: WebSocket;
  readonly #network: Duplex;
  /** True while a ping is unanswered. `ws` closes a WebSocket on which 60 pongs wait to be sent, so only one ping waits. */
  #isPinged = false;
  /** True while the ping is unanswered, and this side has not paused its reading since. */
  #isOverdue = false;
  /** True once a message was too large: pongs are then no longer read. */
  #isDeaf = false;

  /** @param network Network connection of the WebSocket. */
  constructor(webSocket: WebSocket, network: Duplex) {
    this.#webSocket = webSocket;
    this.#network = network;
    webSocket.on("pong", () => {
      this.#isPinged = false;
      this.#isOverdue = false;
    });
    network.on("pause", () => {
      this.#isOverdue = false; // The pong may wait behind much that is not read.
    });
    webSocket.on("error", (error) => {
      this.#isDeaf = isTooLarge(error);
    });
  }

  /** Call it once in each interval in which a ping must be answered. */
  ping(): void {
    if (this.#isDeaf || this.#webSocket.readyState !== WebSocket.OPEN) {
      return;
    }
    if (!this.#isOverdue) {
      this.#isOverdue = !this.#network.isPaused();
      if (this.#isPinged) {
        // Needs no answer. A socket that is not read notices only when it is written to that its peer has reset it.
        this.#webSocket.pong();
      } else {
        this.#isPinged = true;
        this.#webSocket.ping();
      }
      return;
    }
    // The answer may have arrived while this process was busy: read the socket first.
    setImmediate(() =>
      setImmediate(() => {
        if (this.#isOverdue && !this.#isDeaf) {
          this.#webSocket.terminate();
        }
      }),
    );
  }
}
