// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import { readSettings } from "../definition/settings.ts";
import type { Done, PackedSettings } from "./hosted-world.ts";
import { keptStep } from "./kept-request.ts";
import { errorResponse } from "./responses.ts";
import type { Reply, Seat } from "./seat.ts";
import { resetSeat } from "./seat-resets.ts";
import { noActions, type SeatSpecs } from "./seat-specs.ts";
import type { Sequence, SequenceHost } from "./sequence.ts";
import type { Turnstile } from "./turnstile.ts";
import type { WaitingRequests } from "./waiting-requests.ts";

/** What the requests of agents need of their world. */
export interface SeatRequestsHost extends SequenceHost {
  readonly sequence: Sequence;
  /** Why no sequence begins any more, once none does. */
  readonly closing: DmEnvRpcError | undefined;
}

/** The requests of agents that have joined a world. */
export class SeatRequests {
  readonly #host: SeatRequestsHost;
  readonly #turnstile: Turnstile;
  readonly #requests: WaitingRequests;

  constructor(host: SeatRequestsHost, turnstile: Turnstile, requests: WaitingRequests) {
    this.#host = host;
    this.#turnstile = turnstile;
    this.#requests = requests;
  }

  /** A step of an agent; answered when the world's clock says so. */
  step(seat: Seat, request: StepRequest, reply: Reply): void {
    if (!this.#turnstile.tryEnter()) {
      const waiting = keptStep(request);
      this.#turnstile.enter(() => this.#step(seat, waiting, reply));
      return;
    }
    try {
      this.#step(seat, request, reply);
    } finally {
      this.#turnstile.release();
    }
  }

  #step(seat: Seat, request: StepRequest, reply: Reply): void {
    const { closing, calls, sequence } = this.#host;
    const first = seat.phase !== "running";
    const refused = seat.gone ?? (first && seat.phase !== "owed" ? closing : undefined);
    if (refused !== undefined) {
      reply(errorResponse(refused));
      return;
    }
    let requested: ReturnType<SeatSpecs["readRequested"]>;
    let actions = noActions;
    try {
      requested = seat.specs.readRequested(request);
      if (!first) actions = seat.specs.readActions(request);
    } catch (error) {
      reply(errorResponse(error));
      return;
    }
    try {
      sequence.arrive(seat, { actions, requested, reply, first });
    } catch (error) {
      calls.fail(error);
    }
  }

  /** A reset of one agent. */
  reset(seat: Seat, settings: PackedSettings, reply: Reply): void {
    if (seat.gone !== undefined) {
      reply(errorResponse(seat.gone));
      return;
    }
    const failed: Done<never> = (error) => reply(errorResponse(error));
    this.#requests.run(failed, (finish) => {
      if (seat.gone !== undefined) throw seat.gone;
      const { definition, world, calls, sequence } = this.#host;
      const values = readSettings(definition.resetSettings ?? {}, settings, "reset", true);
      let { specs } = seat;
      if (settings.size > 0) {
        const merged = { ...seat.settings, ...values };
        specs = this.#host.settings.specsFor(merged, calls);
        sequence.owed.save();
        const refused = calls.refusal("reset", () => world.reset?.(seat.agent, values));
        if (refused !== undefined) throw refused;
        seat.settings = merged;
        if (definition.perAgent === true) this.#host.settings.reseed(values);
      }
      this.#requests.handOver(finish);
      resetSeat(this.#host, seat, specs, reply);
    });
  }
}
