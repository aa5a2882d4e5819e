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

/** Maximum length of the names and values of a call's metadata, which a program receives with the call. */
const maxMetadataBytes = 16 * 1024;

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
  /** ID of the program that has the place, or had it last. A program uses one ID for all its connections. */
  #instance = "";
  /** True while no connected or connecting program has the place. */
  #isAway = true;
  #link: Link | undefined;
  #streams = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Called when the last stream has closed. */
  #onIdle: (() => void) | undefined;

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
    return this.#isAway;
  }

  /** Streams of agents that are open. */
  get streams(): number {
    return this.#streams;
  }

  /** True if the program with this ID has the place, or had it last. */
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
    this.#isAway = false;
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
      this.#isAway = true;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => onExpired(this), limits.awayMs);
    }
  }

  /** Connects an agent's stream to the program. */
  accept(agent: ServerStream): void {
    const { limits, buffered, share, emit } = this.#options;
    const { name } = this;
    if (this.#streams >= limits.maxStreamsPerProgram) {
      agent.countRefused?.();
      agent.abort(
        new DmEnvRpcError(
          "RESOURCE_EXHAUSTED",
          `too many streams to the program "${name}": expected at most ${limits.maxStreamsPerProgram}; try again later (limit: maxStreamsPerProgram)`,
        ),
      );
      return;
    }
    const { address, metadata } = agent.peer;
    const refused = this.#refusal(metadata);
    if (refused !== undefined) {
      agent.abort(refused);
      return;
    }
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
      if (this.#streams === 0) {
        this.#onIdle?.();
      }
      emit({ kind: "agent-left", program: name, from: address, error });
    });
  }

  /** Returns the error for an agent whose call would use too much of the program's connection. */
  #refusal(metadata: ReadonlyMap<string, string>): DmEnvRpcError | undefined {
    const { maxUnsentBytesPerProgram } = this.#options.limits;
    const bytes = [...metadata].reduce((sum, [name, value]) => sum + name.length + value.length, 0);
    if (bytes > maxMetadataBytes) {
      return new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `metadata of a call to a program: expected at most ${maxMetadataBytes} characters, received ${bytes}`,
      );
    }
    // Above the limit itself, the link closes.
    if ((this.#link?.unsentBytes ?? 0) > maxUnsentBytesPerProgram / 2) {
      return new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `the program "${this.name}" reads too slowly to accept further agents: more than half of maxUnsentBytesPerProgram (${maxUnsentBytesPerProgram}) waits for it; try again later`,
      );
    }
    return undefined;
  }

  /** Closes the port, waits until the streams have ended or `graceMs` have passed, and then closes the link. */
  async close(reason: DmEnvRpcError, options: CloseOptions = {}): Promise<void> {
    clearTimeout(this.#timer);
    // Agents that have dialled the relay's own port have no stream of this port.
    await Promise.all([this.#listener?.close(options), this.#idle(options.graceMs)]);
    this.#link?.close(reason);
    clearTimeout(this.#timer);
  }

  /** Waits until no stream is open, but at most for `graceMs`, whose default is that of `CloseOptions`. */
  #idle(graceMs = 1_000): Promise<void> {
    return new Promise((resolve) => {
      if (this.#streams === 0 || graceMs === 0) {
        resolve();
        return;
      }
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
