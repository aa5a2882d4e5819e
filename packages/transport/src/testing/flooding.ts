// SPDX-License-Identifier: Apache-2.0
import { expect } from "vitest";
import type { Listener } from "../listen/listen-options.ts";

/** Time without a flood after which a listener forgets the floods of an address. */
const forgottenMs = 4_000;

interface Flooding<Opened> {
  /** The limit of the listener. */
  readonly maxFloodsPerAddress: number;
  /** Opens a connection that ends as a flood. */
  readonly flood: () => Promise<void>;
  /** Opens a connection; resolves when it is served. */
  readonly open: () => Promise<Opened>;
  /** Closes a connection that did not wait. */
  readonly close: (opened: Opened) => Promise<void>;
}

/**
 * Floods a listener until a new connection waits, and returns that connection's opening. If the machine pauses for so
 * long that the listener forgets the floods, more of them are needed.
 */
export async function floodUntilWaiting<Opened>(
  { refusals }: Listener,
  { maxFloodsPerAddress, flood, open, close }: Flooding<Opened>,
): Promise<{ readonly opening: Promise<Opened> }> {
  const waits = () => refusals.get("maxFloodsPerAddress");
  const sinceMs = performance.now();
  for (let floods = 1; ; floods++) {
    await flood();
    expect(waits()).toBeUndefined();
    let isOpen = false;
    const opening = open().then((opened) => {
      isOpen = true;
      return opened;
    });
    while (!isOpen && waits() === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const forgotten = Math.floor((performance.now() - sinceMs) / forgottenMs);
    expect(floods).toBeLessThanOrEqual((maxFloodsPerAddress + 1) * (1 + forgotten));
    if (waits() !== undefined) {
      expect(waits()).toBe(1);
      expect(floods).toBeGreaterThan(maxFloodsPerAddress);
      return { opening };
    }
    await close(await opening);
  }
}
