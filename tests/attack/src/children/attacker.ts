// SPDX-License-Identifier: Apache-2.0
// The process of an attack. It prepares its bytes, attacks when it receives the port, and then exits, which closes its
// connections.
import { setPriority } from "node:os";
import { type Attacks, Seen, type Target } from "../attacks/attack.ts";
import { rooms } from "../attacks/index.ts";
import { clockMs } from "./clock.ts";

/** Starts a prepared attack. */
export interface Order {
  readonly port: number;
  /** Minimum duration of the attack. */
  readonly ms: number;
  /** Maximum duration of an attack that lasts until the server has answered. */
  readonly untilAnsweredMs?: number;
}

/** Messages of an attacker. */
export type Report =
  | { readonly kind: "ready" }
  | { readonly kind: "began"; readonly at: number }
  | {
      readonly kind: "ended";
      readonly sentBytes: number;
      readonly receivedBytes: number;
      readonly counts: Readonly<Record<string, number>>;
    };

/** A low priority, because real attackers are other machines, which do not use the server's CPU. */
const niceness = 10;

function send(report: Report): Promise<void> {
  return new Promise((resolve) => {
    process.send?.(report, () => resolve());
  });
}

const all: Attacks = Object.assign({}, ...Object.values(rooms));
const attack = all[process.argv[2] ?? ""]?.();
if (attack === undefined) {
  throw new Error(`unknown attack: ${process.argv[2]}`);
}
setPriority(niceness);
process.once("message", async ({ port, ms, untilAnsweredMs = 0 }: Order) => {
  const seen = new Seen();
  let isOver = false;
  let isLate = false;
  let isAnswered = untilAnsweredMs === 0;
  let end = (): void => {};
  const over = new Promise<void>((resolve) => {
    end = () => {
      if (isLate && isAnswered) {
        isOver = true;
        resolve();
      }
    };
  });
  seen.onFirst = () => {
    setTimeout(() => {
      isLate = true;
      end();
    }, ms);
    setTimeout(() => {
      isAnswered = true;
      end();
    }, untilAnsweredMs);
  };
  const target: Target = {
    host: "127.0.0.1",
    from: "127.0.0.2",
    port,
    seen,
    over,
    isOver: () => isOver,
    answered(how) {
      seen.count(how);
      isAnswered = true;
      end();
    },
  };
  await send({ kind: "began", at: clockMs() });
  await attack(target);
  await over;
  const { sentBytes, receivedBytes, counts } = seen;
  await send({ kind: "ended", sentBytes, receivedBytes, counts });
  process.exit(0);
});
await send({ kind: "ready" });
