// SPDX-License-Identifier: Apache-2.0
import { expectTypeOf, test } from "vitest";
import type { JoinedWorld } from "./hosted-world.ts";
import type { Running, Seat, SeatView, WorldState, WorldView } from "./state.ts";
import type { WorldHost } from "./world-host.ts";

test("a seat that is read outside the engine cannot be changed there", () => {
  const change = (seat: SeatView, other: SeatView): void => {
    // @ts-expect-error the state is the engine's
    seat.state = { kind: "idle", excused: false };
    // @ts-expect-error the specs are the engine's
    seat.specs = other.specs;
    if (seat.state.kind === "running") {
      // @ts-expect-error the data of a state belongs to the engine
      seat.state.entered = true;
      // @ts-expect-error objects in a state belong to the engine
      seat.state.seat.specs = other.specs;
      // @ts-expect-error only the engine adds to a reward
      seat.state.reward.clear();
    }
  };
  expectTypeOf(change).toBeFunction();
});

test("a read-only view of a seat or a world is not accepted as the writable type", () => {
  expectTypeOf<Seat>().toExtend<SeatView>();
  expectTypeOf<SeatView>().not.toExtend<Seat>();
  type RunningView = Extract<SeatView["state"], { readonly kind: "running" }>;
  expectTypeOf<Running>().toExtend<RunningView>();
  expectTypeOf<RunningView>().not.toExtend<Running>();
  expectTypeOf<WorldState>().toExtend<WorldView>();
  expectTypeOf<WorldView>().not.toExtend<WorldState>();
  // @ts-expect-error a world is used through its interfaces, which take a SeatView
  const step = (world: WorldHost, seat: SeatView) => world.leave(seat, () => {});
  const leave = (world: JoinedWorld, seat: SeatView) => world.leave(seat, () => {});
  expectTypeOf([step, leave]).toBeArray();
});
