// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type DiagnosticsChannel, diagnosticsChannel } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import type { SlotFailures } from "../definition/batch/request.ts";
import { tell } from "./tell.ts";

/** A stream was accepted. */
export interface ConnectionOpened {
  readonly kind: "connection-opened";
  /** Address and port of the peer. */
  readonly address: string;
}

/** A stream was closed; its agent has left, or its seat is held. */
export interface ConnectionClosed {
  readonly kind: "connection-closed";
  readonly address: string;
  /** The error, unless the stream ended cleanly. */
  readonly error: Error | undefined;
}

/** `authorize` refused a stream or a spectator's call. */
export interface ConnectionRefused {
  readonly kind: "connection-refused";
  readonly address: string;
  /**
   * The error that `authorize` threw, or that describes its invalid result or its time-out; undefined
   * if it returned undefined. The peer receives only the error of a time-out.
   */
  readonly error: Error | undefined;
}

/** A world was created. */
export interface WorldCreated {
  readonly kind: "world-created";
  readonly worldName: string;
  /** Name of the world's definition. */
  readonly worldType: string;
}

/** A world was destroyed. */
export interface WorldDestroyed {
  readonly kind: "world-destroyed";
  readonly worldName: string;
  readonly worldType: string;
  /** A client requested it, the world had no agents for `idleWorldMs`, or the server closed. */
  readonly why: "requested" | "idle" | "closing";
}

/**
 * A world's code threw, took too long or violated its own specs, and the world is gone; with
 * `perAgent`, the world of one agent.
 */
export interface WorldFailed {
  readonly kind: "world-failed";
  readonly worldName: string;
  readonly worldType: string;
  /** The error that its agents receive; its cause is the author's own error. */
  readonly error: DmEnvRpcError;
}

/** An agent joined a world. */
export interface AgentJoined {
  readonly kind: "agent-joined";
  readonly worldName: string;
  readonly agent: AgentId;
}

/** An agent left a world or was removed from it. */
export interface AgentLeft {
  readonly kind: "agent-left";
  readonly worldName: string;
  readonly agent: AgentId;
  /** The reason; undefined if the agent asked to leave or its stream ended. */
  readonly error: DmEnvRpcError | undefined;
}

/** `hold`, `leave` or `giveBack` of a join token's seat failed. */
export interface SeatFailed {
  readonly kind: "seat-failed";
  readonly worldName: string;
  /** The value that the function threw. */
  readonly error: unknown;
}

/**
 * An author's function that answers a single client failed other than by a refusal: a property, an
 * extension, or a picture or observation for spectators.
 */
export interface AnswerFailed {
  readonly kind: "answer-failed";
  /** Undefined for a function of the server. */
  readonly worldName: string | undefined;
  /** Description, such as `property "speed"`. */
  readonly what: string;
  /** The error that was thrown. */
  readonly error: unknown;
}

/** A sequence of a world began. */
export interface SequenceStarted {
  readonly kind: "sequence-started";
  readonly worldName: string;
}

/**
 * An agent did not step before the deadline of the world's clock. Emitted once, however long a tick
 * or the beginning of a sequence waits for the agent's step.
 */
export interface DeadlineMissed {
  readonly kind: "deadline-missed";
  readonly worldName: string;
  readonly agent: AgentId;
}

/**
 * A real-time world skipped ticks because its machine or its author's code was too slow (behaviour
 * 66).
 */
export interface TicksMissed {
  readonly kind: "ticks-missed";
  readonly worldName: string;
  /** Number of consecutive ticks that were skipped. */
  readonly count: number;
}

/**
 * Environments of a batch threw, took too long or violated their specs; their sequences were cut
 * short (behaviour 72).
 */
export interface SlotsFailed extends SlotFailures {
  readonly kind: "slots-failed";
  readonly worldName: string;
  readonly agent: AgentId;
}

/** A network error that belongs to no stream. */
export interface TransportFailed {
  readonly kind: "transport-error";
  readonly error: Error;
}

/** The server began to close. */
export interface ServerClosing {
  readonly kind: "server-closing";
  readonly graceMs: number;
}

/** Events that a server emits. */
export type ServerEvent =
  | ConnectionOpened
  | ConnectionClosed
  | ConnectionRefused
  | WorldCreated
  | WorldDestroyed
  | WorldFailed
  | AgentJoined
  | AgentLeft
  | SeatFailed
  | AnswerFailed
  | SequenceStarted
  | DeadlineMissed
  | TicksMissed
  | SlotsFailed
  | TransportFailed
  | ServerClosing;

/** Emits an event. */
export type Emit = (event: ServerEvent) => void;

/**
 * The name of the `node:diagnostics_channel` on which events of a kind are published:
 * `dm-env-rpc:server:` and the kind. The message is the ServerEvent.
 */
export function channelName<K extends ServerEvent["kind"]>(kind: K): `dm-env-rpc:server:${K}` {
  return `dm-env-rpc:server:${kind}`;
}

/** The channels by the kind of their events. Node forgets a channel without subscribers that is not referenced. */
const channels = new Map<ServerEvent["kind"], DiagnosticsChannel>();

function channelOf(kind: ServerEvent["kind"]): DiagnosticsChannel {
  let channel = channels.get(kind);
  if (channel === undefined) {
    channel = diagnosticsChannel(channelName(kind));
    channels.set(kind, channel);
  }
  return channel;
}

/**
 * Creates the function that emits a server's events: to `onEvent` first, then to the channel of
 * their kind. An error of a listener is rethrown as an uncaught exception and never reaches the
 * server.
 */
export function createEmit(onEvent: ((event: ServerEvent) => void) | undefined): Emit {
  return (event) => {
    if (onEvent !== undefined) {
      tell(() => onEvent(event));
    }
    const published = channelOf(event.kind);
    if (published.hasSubscribers) {
      published.publish(event);
    }
  };
}
