// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ServerStream } from "@dm-env-rpc/transport";
import {
  LiveSet,
  networkOf,
  type RefusalCounts,
  StreamCounts,
  type StreamLimits,
  type TimeSource,
} from "@dm-env-rpc/transport/internal";
import { Session, type SessionHost } from "../session/session.ts";
import type { Admission } from "./authorize.ts";
import type { Emit } from "./events.ts";

/** Number of checks within `idleStreamMs`. */
const idleChecks = 4;

/** A network of IPv4 or IPv6, as `networkOf` returns it. */
const ipNetwork = /^\d+(\.\d+){3}$|::\/64$/;

/** Options of the sessions of a server. */
export interface SessionsOptions extends Omit<SessionHost, "onClosed">, StreamLimits {
  readonly admission: Admission;
  readonly idleStreamMs: number;
  /** Counts streams that are refused or ended. */
  readonly refusals: RefusalCounts;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/** The streams of a server, from `accept` until they are closed. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #host: SessionHost;
  readonly #sessions = new LiveSet<Session>();
  /** Counts the open streams, including streams without a session yet. */
  readonly #streams: StreamCounts;
  /** Number of streams so far whose peer has no IP address. */
  #withoutIp = 0;
  #closing: DmEnvRpcError | undefined;
  #cancelSweep: (() => void) | undefined;
  #onEmpty: (() => void)[] = [];

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#streams = new StreamCounts("streams", options, options.refusals);
    this.#host = { ...options, onClosed: (session, error) => this.#closed(session, error) };
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Accepts a stream, or aborts it with the reason. */
  accept(stream: ServerStream): void {
    if (this.#closing !== undefined) {
      stream.abort(new DmEnvRpcError("UNAVAILABLE", this.#closing.message));
      return;
    }
    const uncount = this.#streams.open(this.#countedAs(stream.peer.address));
    if (isDmEnvRpcError(uncount)) {
      stream.countRefused?.();
      stream.abort(uncount);
      return;
    }
    this.#options.admission(stream.peer, (result) => {
      if (isDmEnvRpcError(result)) {
        uncount();
        stream.abort(result);
      } else if (this.#closing !== undefined) {
        uncount();
        stream.abort(new DmEnvRpcError("UNAVAILABLE", this.#closing.message));
      } else {
        this.#start(new Session(stream, result, this.#host, uncount));
      }
    });
  }

  /**
   * Returns the address under which `maxStreamsPerAddress` counts a stream. All clients of a Unix domain socket have the
   * same address, and so have all streams in memory. Each of these streams is counted under an address of its own, so that
   * only `maxStreams` limits them.
   */
  #countedAs(address: string): string {
    if (ipNetwork.test(networkOf(address))) {
      return address;
    }
    this.#withoutIp += 1;
    return `${address}#${this.#withoutIp}`;
  }

  #start(session: Session): void {
    this.#sessions.add(session);
    this.#options.emit({ kind: "connection-opened", address: session.address });
    session.start();
    this.#sweepLater();
  }

  #closed(session: Session, error: Error | undefined): void {
    session.uncount();
    this.#sessions.delete(session);
    this.#options.emit({ kind: "connection-closed", address: session.address, error });
    if (this.#sessions.size > 0) {
      return;
    }
    this.#cancelSweep?.();
    this.#cancelSweep = undefined;
    for (const told of this.#onEmpty.splice(0)) {
      told();
    }
  }

  /** Ends each stream as soon as its agent has received the end of its sequence. */
  drain(reason: DmEnvRpcError): void {
    this.#closing = reason;
    for (const session of this.#sessions) {
      session.drain(reason);
    }
  }

  /** Aborts the remaining streams. */
  abort(error: Error): void {
    for (const session of this.#sessions) {
      session.abort(error);
    }
  }

  /** Resolves when all streams are closed. */
  async whenEmpty(): Promise<void> {
    if (this.#sessions.size === 0) {
      return;
    }
    await new Promise<void>((resolve) => {
      this.#onEmpty.push(resolve);
    });
  }

  /** Ends streams that have joined no world and send no requests, until all streams are closed. */
  #sweepLater(): void {
    const { idleStreamMs, time, refusals } = this.#options;
    if (idleStreamMs === 0 || this.#cancelSweep !== undefined) {
      return;
    }
    this.#cancelSweep = time.after(idleStreamMs / idleChecks, () => {
      this.#cancelSweep = undefined;
      for (const session of this.#sessions) {
        // Not `>`, because a stream that takes long to close is found idle again.
        if (session.idleFor() === idleChecks + 1) {
          refusals.count("idleStreamMs");
          session.abort(idleTooLong(idleStreamMs));
        }
      }
      if (this.#sessions.size > 0) {
        this.#sweepLater();
      }
    });
  }
}

function idleTooLong(idleStreamMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `stream idle: it joined no world and sent no request for ${idleStreamMs} ms; connect again when you need it (limit: idleStreamMs)`,
  );
}
