// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type WatchWorldResponse, WatchWorldResponseSchema } from "@dm-env-rpc/protocol/spectator";
import type { ThreadShare, TimeSource } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import type { UntypedWorld } from "../definition/world.ts";
import type { SpectatedAgent, SpectatedWorld } from "../engine/hosted-world.ts";
import { agentViews, summaryOf, viewOf } from "./frames.ts";
import { SharedMessage } from "./shared-message.ts";

/** Highest rate of frames per second. */
export const maxRate = 30;

/** Options of a watched world. */
export interface LiveWorldOptions {
  readonly world: SpectatedWorld;
  /** The agent that is shown; undefined for the first agent. */
  readonly agent: AgentId | undefined;
  /** Sequences that have begun. */
  readonly sequences: () => number;
  readonly isGone: () => boolean;
  /** Shares the thread with the sessions of the server, so that pictures are drawn in turns. */
  readonly share: ThreadShare;
  readonly time: TimeSource;
  /**
   * Reports a failure of the author's code; repeated failures are reported only after a success.
   */
  readonly onFault: (what: string, error: unknown) => void;
}

/** A frame of a world, which its viewers share. */
export class LiveFrame extends SharedMessage<typeof WatchWorldResponseSchema> {
  /** Number of the frame, counted from 1. */
  readonly number: number;

  constructor(number: number, message: WatchWorldResponse) {
    super(WatchWorldResponseSchema, message);
    this.number = number;
  }
}

/**
 * The frames of one world, which its viewers share: each is created once, at most `maxRate` times a
 * second, when the world has changed and a viewer waits for it. A late viewer receives the latest
 * frame.
 */
export class LiveWorld {
  readonly #options: LiveWorldOptions;
  #latest: LiveFrame | undefined;
  /** `counts.changes` of the world when the latest frame was begun. */
  #changes = -1;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isMaking = false;
  #hasFailed = false;
  #cancelTimer: (() => void) | undefined;
  /** Networks in whose turns the frame that is being made may be drawn; undefined unless it waits for one. */
  #queued: Set<string> | undefined;
  /** The viewers that wait, and the network of each. */
  readonly #waiting = new Map<() => void, string>();

  constructor(options: LiveWorldOptions) {
    this.#options = options;
  }

  /**
   * Adds a viewer.
   *
   * @param network The viewer's network, as `networkOf` returns it.
   * @returns A function that waits for a frame after number `seen`. It returns undefined if the
   * world is gone or the signal aborts.
   */
  watch(signal: AbortSignal, network: string): (seen: number) => Promise<LiveFrame | undefined> {
    let wake = (): void => {};
    signal.addEventListener("abort", () => this.#leave(wake), { once: true });
    return async (seen) => {
      let hasWaited = false;
      while (!signal.aborted && !this.#options.isGone()) {
        const latest = this.#latest;
        // A frame made while the viewer waited counts as current even if the world has changed again:
        // a world may change faster than its picture is encoded.
        const isCurrent = hasWaited || !this.#hasChanged || this.#untilDueMs > 0;
        if (latest !== undefined && latest.number > seen && isCurrent) {
          return latest;
        }
        hasWaited = true;
        await new Promise<void>((resolve) => {
          wake = resolve;
          this.#waiting.set(wake, network);
          this.#drawInTurnOf(network);
          this.#lookLater();
        });
      }
      return undefined;
    };
  }

  get #hasChanged(): boolean {
    return this.#options.world.counts.changes !== this.#changes;
  }

  /** Milliseconds until the world may be observed again. */
  get #untilDueMs(): number {
    return Math.max(0, this.#lookedAt + 1_000 / maxRate - this.#options.time.now());
  }

  /** Wakes a viewer that leaves. */
  #leave(wake: () => void): void {
    this.#waiting.delete(wake);
    if (this.#waiting.size === 0) {
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
    }
    wake();
  }

  /**
   * Observes the world at the next due time. One timer serves all viewers, and none runs while no
   * viewer waits.
   */
  #lookLater(): void {
    if (this.#isMaking || this.#cancelTimer !== undefined || this.#waiting.size === 0) {
      return;
    }
    this.#cancelTimer = this.#options.time.after(this.#untilDueMs, () => {
      this.#cancelTimer = undefined;
      this.#lookedAt = this.#options.time.now();
      if (this.#options.isGone()) {
        this.#wakeAll();
      } else if (this.#hasChanged) {
        this.#make();
      } else {
        this.#lookLater();
      }
    });
  }

  #make(): void {
    this.#isMaking = true;
    this.#queued = new Set();
    for (const network of this.#waiting.values()) {
      this.#drawInTurnOf(network);
    }
  }

  /**
   * Lets the frame that is being made be drawn in the turn of a viewer's network, unless the turn of another viewer comes
   * first. A viewer thus does not wait for other worlds that only another viewer watches.
   */
  #drawInTurnOf(network: string): void {
    const { world, agent, share } = this.#options;
    const queued = this.#queued;
    if (queued === undefined || queued.has(network)) {
      return;
    }
    queued.add(network);
    // Of a network's tasks, each watched world has a share of its own, as if it were a connection.
    void share.run({ network, connection: `pictures of ${world.name}` }, () => {
      if (this.#queued === queued) {
        this.#queued = undefined;
        world.look(agent, (author) => this.#draw(author, network));
      }
    });
  }

  #draw(author: UntypedWorld | undefined, network: string): void {
    const { world, agent } = this.#options;
    this.#changes = world.counts.changes;
    const frame = this.#numbers();
    const spectated = this.#spectated(agent);
    const view = viewOf(author, spectated, network, (what, error) => this.#report(what, error));
    void view.then((view) => {
      if (view.case !== "error") {
        this.#hasFailed = false;
      }
      frame.view = view;
      this.#latest = new LiveFrame((this.#latest?.number ?? 0) + 1, frame);
      this.#isMaking = false;
      this.#wakeAll();
    });
  }

  #spectated(wanted: AgentId | undefined): SpectatedAgent | undefined {
    for (const spectated of this.#options.world.agents()) {
      if (wanted === undefined || spectated.agent === wanted) {
        return spectated;
      }
    }
    return undefined;
  }

  #numbers(): WatchWorldResponse {
    const { world, sequences, time } = this.#options;
    const { missedDeadlines, missedTicks } = world.counts;
    return create(WatchWorldResponseSchema, {
      timeMs: time.now(),
      world: summaryOf(world, sequences()),
      isRunning: world.isRunning,
      agents: agentViews(world),
      missedDeadlines: BigInt(missedDeadlines),
      missedTicks: BigInt(missedTicks),
    });
  }

  #report(what: string, error: unknown): void {
    if (!this.#hasFailed) {
      this.#hasFailed = true;
      this.#options.onFault(what, error);
    }
  }

  #wakeAll(): void {
    const waiting = [...this.#waiting.keys()];
    this.#waiting.clear();
    for (const wake of waiting) {
      wake();
    }
  }
}
