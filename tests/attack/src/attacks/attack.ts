// SPDX-License-Identifier: Apache-2.0
import { setTimeout as sleep } from "node:timers/promises";
import { Peer, type PeerOptions } from "../wire/peer.ts";

/** Counts of the bytes that an attack sent, and of the server's answers. */
export class Seen {
  sentBytes = 0;
  receivedBytes = 0;
  readonly counts: Record<string, number> = {};
  /** Called when the first answer or event is counted; the first event is an open connection. */
  onFirst: () => void = () => {};

  /** Counts an answer or an event by its name. */
  count(what: string): void {
    const before = this.counts[what] ?? 0;
    this.counts[what] = before + 1;
    this.onFirst();
    this.onFirst = () => {};
  }
}

/** The attacked server, and the time of the attack. */
export interface Target {
  readonly host: string;
  readonly port: number;
  /** Source address of the attack; all other agents have a different address. */
  readonly from: string;
  readonly seen: Seen;
  /** Resolves when the attack's time is over. */
  readonly over: Promise<void>;
  isOver(): boolean;
  /** Counts the answer to a single message. */
  answered(how: string): void;
}

/** Prepares the bytes of an attack. The returned function attacks until `target.over`, and leaves its connections open. */
export type Attack = () => (target: Target) => Promise<unknown>;

/** A room of attacks, by name. */
export type Attacks = Readonly<Record<string, Attack>>;

/** Pause after a refused connection. */
const refusedMs = 10;

/**
 * Runs `play` on each of `count` connections. Until the attack is over, a new connection replaces each one whose `play`
 * has ended.
 *
 * @param open Opens a connection; returns undefined if it is refused.
 */
export async function reopen<Connection>(
  target: Target,
  count: number,
  open: () => Promise<Connection | undefined>,
  play: (connection: Connection) => Promise<unknown>,
): Promise<void> {
  await repeat(target, count, async () => {
    const connection = await open();
    if (connection === undefined) {
      await sleep(refusedMs);
    } else {
      await play(connection);
    }
  });
}

/** Runs `play` on each of `count` HTTP/2 connections, as `reopen` does, and closes each one whose `play` has ended. */
export async function persist(
  target: Target,
  count: number,
  play: (peer: Peer) => Promise<unknown>,
  options?: PeerOptions,
): Promise<void> {
  await reopen(
    target,
    count,
    () => Peer.connect(target, options),
    async (peer) => {
      await play(peer);
      if (!target.isOver()) {
        peer.destroy();
      }
    },
  );
}

/** Opens `count` connections, runs `play` once on each, and leaves them open until the attack is over. */
export async function hold(
  target: Target,
  count: number,
  play: (peer: Peer) => Promise<unknown>,
  options?: PeerOptions,
): Promise<void> {
  const connections = Array.from({ length: count }, async () => {
    const peer = await Peer.connect(target, options);
    if (peer !== undefined) {
      await play(peer);
    }
  });
  await Promise.all(connections);
  await target.over;
}

/** Runs `count` loops of `play` until the attack is over. */
export async function repeat(
  target: Target,
  count: number,
  play: () => Promise<unknown>,
): Promise<void> {
  const loops = Array.from({ length: count }, async () => {
    while (!target.isOver()) {
      await play();
    }
  });
  await Promise.all(loops);
}

/** Concatenates `count` copies of the bytes. */
export function times(count: number, bytes: Uint8Array): Buffer {
  return Buffer.alloc(count * bytes.length, bytes);
}
