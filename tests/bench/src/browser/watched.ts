// SPDX-License-Identifier: Apache-2.0
import { constants, setPriority } from "node:os";
import { startNode } from "../harness/child.ts";
import { startPair } from "../harness/pair.ts";
import type { Options } from "../options.ts";

/** Viewers of one world. */
export const viewerCount = 50;

/** Frames a second that each viewer asks for. */
export const frameRate = 30;

/** One turn with viewers, and one without. */
export interface Watched {
  readonly steps: number;
  readonly watchedSteps: number;
  /** Frames per second that each viewer received. */
  readonly frames: number;
}

/**
 * Turns with viewers and without, one after the other, in the same processes.
 *
 * The viewers' process has the lowest priority: viewers of a real server have processors of their own.
 */
export async function measureViewers(
  options: Options,
  onProgress: (text: string) => void,
): Promise<readonly Watched[]> {
  const [turns, turnMs, warmUpMs] = options.quick ? [5, 500, 1_000] : [24, 1_000, 5_000];
  await using pair = await startPair(options, { server: "ours", client: "ours" }, "board");
  const watching = startNode(options, "viewers");
  setPriority(watching.pid, constants.priority.PRIORITY_LOW);
  try {
    await pair.connect("agent", 1);
    await pair.client.ask("play", { group: "agent", inFlight: 1, durationMs: warmUpMs });
    const watched: Watched[] = [];
    for (let turn = 0; turn <= turns; turn++) {
      onProgress(`turn ${turn} of ${turns}: viewers`);
      const play = { group: "agent", inFlight: 1, durationMs: turnMs };
      const alone = await pair.client.ask("play", play);
      await watching.ask("connect", {
        group: "viewers",
        peer: "viewers",
        load: "board",
        port: pair.port,
        connections: viewerCount,
        inFlight: 1,
      });
      const [seen, viewed] = await Promise.all([
        pair.client.ask("play", play),
        watching.ask("play", { ...play, group: "viewers" }),
      ]);
      await watching.ask("close", { group: "viewers" });
      // In the first turn the viewers' process warms up.
      if (turn > 0) {
        watched.push({
          steps: (alone.steps * 1_000) / alone.elapsedMs,
          watchedSteps: (seen.steps * 1_000) / seen.elapsedMs,
          frames: (viewed.steps * 1_000) / viewed.elapsedMs / viewerCount,
        });
      }
    }
    return watched;
  } finally {
    await watching.close();
  }
}
