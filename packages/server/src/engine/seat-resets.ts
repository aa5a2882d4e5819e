// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ResetResponseSchema } from "@dm-env-rpc/protocol";
import type { Reply, Seat } from "./seat.ts";
import type { SeatSpecs } from "./seat-specs.ts";
import type { Sequence, SequenceHost } from "./sequence.ts";

/** Resets one agent, whose settings have been taken over (behaviours 38 to 40). */
export function resetSeat(
  host: SequenceHost & { readonly sequence: Sequence },
  seat: Seat,
  specs: SeatSpecs,
  reply: Reply,
): void {
  const { definition, world, calls, sequence } = host;
  if (seat.phase !== "running") {
    if (seat.phase === "owed") sequence.owed.settle(seat);
    seat.resetting = { reply, specs };
    answerReset(seat);
    host.barrier.paid(seat);
    return;
  }
  sequence.take(seat);
  seat.phase = "resetting";
  seat.resetting = { reply, specs };
  if (definition.onReset !== "wait") {
    sequence.owed.save();
    calls.sync("exit", () => world.exit?.(seat.agent));
    answerReset(seat);
  }
  sequence.changed();
}

/** Answers the reset of an agent, if it has one outstanding; its new specs hold from then on. */
export function answerReset(seat: Seat): void {
  const { resetting } = seat;
  if (resetting === undefined) return;
  seat.resetting = undefined;
  seat.specs = resetting.specs;
  seat.phase = "idle";
  resetting.reply({
    case: "reset",
    value: create(ResetResponseSchema, { specs: resetting.specs.message }),
  });
}
