// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { CloseOptions, Listener, ServerStream } from "@dm-env-rpc/transport";
import type { ThreadShare } from "@dm-env-rpc/transport/internal";
import {
  type BufferedBytes,
  type ConnectionBytes,
  type Link,
  rawCodecs,
  WebSocketStream,
} from "@dm-env-rpc/transport/internal/relay";
import type { RelayEvent } from "./events.ts";
import type { ProgramGrant } from "./grants.ts";
import { joinStreams } from "./join-streams.ts";
import type { RelayLimits } from "./limits.ts";

/** Dependencies of a place. */
export interface PlaceOptions {
  /** Name of the program. */
  readonly name: string;
  readonly grant: ProgramGrant;
  readonly limits: RelayLimits;
  /** Accounts for the undelivered messages of streams. */
  readonly buffered: BufferedBytes;
  /** Shares the thread among all agents and programs. */
  readonly share: ThreadShare;
  readonly emit: (event: RelayEvent) => void;
  /** Called when the program has not reconnected in time, so the place is free. */
  readonly onExpired: (place: Place) => void;
}

/** A program's place at a relay: the port for its agents, and its link while it is connected. */
export class Place {
  readonly name: string;
  readonly grant: ProgramGrant;
  readonly #options: PlaceOptions;
  /** Bytes that all its streams hold. */
  readonly #held: ConnectionBytes;
  #listener: Listener | undefined;
  #address = "";
  /** ID of the program that has the place, the same for all its connections. */
  #instance: string | undefined;
  #link: Link | undefined;
  #streams = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PlaceOptions) {
    this.#options = options;
    this.name = options.name;
    this.grant = options.grant;
    this.#held = { network: `program ${options.name}`, bytes: 0, pieces: 0 };
  }

  /** Address at which agents reach the program. */
  get address(): string {
    return this.#address;
  }

  /** True while the program is connected. */
  get isConnected(): boolean {
    return this.#link !== undefined;
  }

  /** True while no connected or connecting program has the place. */
  get isAway(): boolean {
    return this.#instance === undefined;
  }

  /** Streams of agents that are open. */
  get streams(): number {
    return this.#streams;
  }

  /** True if the program with this ID has the place. */
  isOf(instance: string): boolean {
    return this.#instance === instance;
  }

  /** Sets the port of the place. */
  open(listener: Listener, address: string): void {
    this.#listener = listener;
    this.#address = address;
  }

  /** Reserves the place for a program that is about to be attached. */
  reserve(instance: string): void {
    clearTimeout(this.#timer);
    this.#instance = instance;
  }

  /** Sets the link of the program and closes its earlier link, if any. */
  attach(link: Link, instance: string, from: string): void {
    const { name, address } = this;
    this.reserve(instance);
    const earlier = this.#link;
    this.#link = link;
    earlier?.close(
      new DmEnvRpcError(
        "ABORTED",
        `the program "${name}" has connected again; this connection is replaced`,
      ),
    );
    link.welcome({ program: name, address, pingIntervalMs: this.#options.limits.programPingMs });
    this.#options.emit({ kind: "program-joined", program: name, address, from });
  }

  /** Called when a link has closed. If the program has no other link, the place is kept for `awayMs`. */
  detach(link: Link, error: DmEnvRpcError): void {
    if (this.#link === link) {
      this.#link = undefined;
      this.leave();
    }
    this.#options.emit({ kind: "program-lost", program: this.name, error });
  }

  /** Keeps the place for `awayMs` without a program, unless a program is connected. */
  leave(): void {
    if (this.#link === undefined) {
      const { limits, onExpired } = this.#options;
      this.#instance = undefined;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => onExpired(this), limits.awayMs);
    }
  }

  /** Connects an agent's stream to the program. */
  accept(agent: ServerStream): void {
    const { limits, buffered, share, emit } = this.#options;
    const { name } = this;
    if (this.#streams >= limits.maxStreamsPerProgram) {
      agent.abort(
        new DmEnvRpcError(
          "RESOURCE_EXHAUSTED",
          `too many streams to the program "${name}": expected at most ${limits.maxStreamsPerProgram}; try again later (limit: maxStreamsPerProgram)`,
        ),
      );
      return;
    }
    const { address, metadata } = agent.peer;
    const socket = this.#link?.open({
      peerAddress: address,
      metadata: Object.fromEntries(metadata),
    });
    if (socket === undefined) {
      agent.abort(
        new DmEnvRpcError(
          "UNAVAILABLE",
          `the program "${name}" is not connected to this relay now; try again later`,
        ),
      );
      return;
    }
    this.#streams += 1;
    emit({ kind: "agent-joined", program: name, from: address });
    const program = new WebSocketStream({
      socket,
      side: "client",
      decoder: rawCodecs.response,
      encoder: rawCodecs.request,
      maxMessageBytes: limits.maxMessageBytes,
      peerName: `the program "${name}"`,
      openAccount: (holder) => buffered.open(this.#held, holder),
    });
    joinStreams(agent, program, share, (error) => {
      this.#streams -= 1;
      emit({ kind: "agent-left", program: name, from: address, error });
    });
  }

  /** Closes the port, and then the link. */
  async close(reason: DmEnvRpcError, options?: CloseOptions): Promise<void> {
    clearTimeout(this.#timer);
    await this.#listener?.close(options);
    this.#link?.close(reason);
    clearTimeout(this.#timer);
  }
}
