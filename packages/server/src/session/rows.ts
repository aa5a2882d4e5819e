// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type ActionObservationSpecs,
  EnvironmentStateType,
  ResetResponseSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError, unpack } from "@dm-env-rpc/tensor-codec";
import { unpackStatus } from "@dm-env-rpc/tensor-codec/proto";
import type {
  ProcessResponse,
  StepRequest,
  StepResponse,
  UidTensor,
} from "@dm-env-rpc/tensor-codec/wire";
import { stepTypes } from "../definition/batch/specs.ts";
import type { JoinedWorld } from "../engine/hosted-world.ts";
import type { Done, PackedSettings, Reply } from "../engine/requests.ts";
import { clientError, errorResponse } from "../engine/responses.ts";
import { expectsEnd, type SeatView } from "../engine/state.ts";
import type { Place } from "./place.ts";
import { type Requested, RowSpecs, type RowsStep } from "./row-specs.ts";

const { RUNNING, TERMINATED } = EnvironmentStateType;

/** One seat of a stream. */
interface Row {
  readonly index: number;
  readonly seat: SeatView;
  /** The outstanding step: a first step, or a step that acts. */
  pending: "first" | "acting" | undefined;
  /** Requested observations of the outstanding step. */
  requested: readonly Requested[];
  /** Result of the row's step, until it is sent. */
  answered: { readonly stepType: number; readonly isTerminated: boolean } | undefined;
}

/** An outstanding step of the stream. */
interface OpenStep {
  readonly step: RowsStep;
  readonly reply: Reply;
  /** Rows whose first step is sent once the acting rows are answered. */
  readonly beginning: readonly Row[];
}

/**
 * Several seats of a shared world on one stream (behaviour 73). Every rule for agents applies to
 * each row, and one step is a step of every row.
 *
 * The acting rows are done when each has its result. They are also done when the world waits for the
 * next step of a row that has its result, as on the clock `turns`, or of a row whose step was
 * refused. Then rows outside a sequence begin one, unless the step's `begin_mask` excludes them, and
 * the step is answered. A row that still waits, for its turn or for a sequence to begin, does not
 * delay the others: its last observations are sent again, and its result is in the response to a
 * later step.
 */
export class Rows implements Place {
  readonly isResumed = false;
  readonly world: JoinedWorld;
  readonly seats: readonly SeatView[];
  readonly #rows: readonly Row[];
  readonly #maxElements: number;
  #specs: RowSpecs;
  /** Number of rows with each kind of outstanding step. */
  readonly #pending = { first: 0, acting: 0 };
  #open: OpenStep | undefined;
  /** The first error of a row in the open step. */
  #error: DmEnvRpcError | undefined;
  /** A reset of all rows that waits until the outstanding steps of some rows are answered. */
  #openReset: { readonly waiting: Set<Row>; reset(row: Row): void } | undefined;

  /** @param specs Specs that fit each seat. */
  constructor(
    world: JoinedWorld,
    seats: readonly SeatView[],
    specs: RowSpecs,
    maxElements: number,
  ) {
    this.world = world;
    this.seats = seats;
    this.#rows = seats.map((seat, index) => ({
      index,
      seat,
      pending: undefined,
      requested: [],
      answered: undefined,
    }));
    this.#maxElements = maxElements;
    this.#specs = specs;
  }

  /** @throws DmEnvRpcError if the seats do not have the same specs. */
  #specsOfSeats(): RowSpecs {
    const [first, ...others] = this.seats as readonly [SeatView, ...SeatView[]];
    const specs = new RowSpecs(first.specs, this.seats.length, this.#maxElements);
    for (const seat of others) {
      specs.check(seat.specs);
    }
    return specs;
  }

  get specs(): ActionObservationSpecs {
    return this.#specs.message;
  }

  get expectsEnd(): boolean {
    return this.seats.some(expectsEnd);
  }

  step(request: StepRequest, reply: Reply): void {
    const ready = this.#rows.filter(({ pending, answered }) => !pending && !answered);
    const areFirst = this.seats.every(isFirst);
    let step: RowsStep;
    try {
      step = this.#specs.read(request, areFirst);
    } catch (error) {
      reply(errorResponse(error));
      return;
    }
    if (areFirst) {
      this.#forget();
    }
    const acting = ready.filter(({ seat }) => !isFirst(seat));
    const beginning = ready.filter(
      ({ seat, index }) => isFirst(seat) && step.begins?.[index] !== false,
    );
    this.#open = { step, reply, beginning: acting.length === 0 ? [] : beginning };
    this.#error = undefined;
    this.#send(acting.length === 0 ? beginning : acting, step);
    this.#settle();
  }

  #send(rows: readonly Row[], step: RowsStep): void {
    for (const row of rows) {
      this.#await(row, isFirst(row.seat) ? "first" : "acting");
      row.requested = step.requested;
    }
    this.world.stepAll(
      rows.map((row) => ({
        seat: row.seat,
        request: step.rows[row.index] as StepRequest,
        reply: (response) => this.#answered(row, response),
      })),
      (error, index) => {
        for (const row of rows) {
          this.#await(row, undefined);
        }
        this.#error ??= rowError(error, (rows[index] as Row).index);
        this.#settle();
      },
    );
  }

  #answered(row: Row, response: ProcessResponse): void {
    const wasFirst = row.pending === "first";
    this.#await(row, undefined);
    if (response.case === "step") {
      const { state } = response.value;
      const running = wasFirst ? stepTypes.first : stepTypes.mid;
      row.answered = {
        stepType: state === RUNNING ? running : stepTypes.last,
        isTerminated: state === TERMINATED,
      };
      write(row, response.value);
    } else if (response.case === "error") {
      this.#error ??= rowError(unpackStatus(response.value), row.index);
    }
    if (this.#openReset !== undefined && this.#openReset.waiting.size > 0) {
      this.#openReset.reset(row);
    }
    this.#settle();
  }

  /**
   * Answers the open step when it is complete: at once if every row has its result, otherwise after
   * the world's transition.
   */
  #settle(): void {
    const open = this.#open;
    if (open === undefined) {
      return;
    }
    if (this.#pending.acting === 0 && open.beginning.length > 0 && this.#error === undefined) {
      this.#begin(open);
      return;
    }
    if (this.#pending.first + this.#pending.acting === 0) {
      this.#answer(open);
    } else if (this.#pending.acting === 0) {
      queueMicrotask(() => {
        const hasNews = this.#error !== undefined || this.#rows.some(({ answered }) => answered);
        if (this.#open === open && this.#pending.acting === 0 && hasNews) {
          this.#answer(open);
        }
      });
    } else if (this.#isAwaited()) {
      this.world.whenIdle(() => {
        if (this.#open !== open || this.#pending.acting === 0 || !this.#isAwaited()) {
          return;
        }
        if (open.beginning.length > 0 && this.#error === undefined) {
          this.#begin(open);
        } else {
          this.#answer(open);
        }
      });
    }
  }

  /**
   * Sends the first steps, only after the acting rows are answered: in lock-step, the acting rows
   * would otherwise wait for the second step of a row that has just begun.
   */
  #begin(open: OpenStep): void {
    this.#open = { ...open, beginning: [] };
    this.#send(open.beginning, open.step);
    this.#settle();
  }

  /**
   * Returns true if the world may wait for the next step of a row whose last step was answered or
   * refused. The client sends that next step only after it has received the open step's response.
   */
  #isAwaited(): boolean {
    if (this.#error !== undefined) {
      return true;
    }
    return this.#rows.some(({ answered, seat }) => answered && seat.state.kind === "running");
  }

  /** Changes the outstanding step of a row. */
  #await(row: Row, pending: Row["pending"]): void {
    if (row.pending !== undefined) {
      this.#pending[row.pending] -= 1;
    }
    row.pending = pending;
    if (pending !== undefined) {
      this.#pending[pending] += 1;
    }
  }

  #answer({ step, reply }: OpenStep): void {
    const error = this.#error;
    this.#open = undefined;
    this.#error = undefined;
    for (const { column, own } of step.requested) {
      if (own !== undefined && column.name !== "reward") {
        continue;
      }
      for (const { index, answered } of this.#rows) {
        if (own === undefined) {
          column.write(index, rowValueOf(column.name, answered));
        } else if (answered === undefined) {
          column.clear(index);
        }
      }
    }
    for (const row of this.#rows) {
      row.answered = undefined;
    }
    if (error !== undefined) {
      reply(errorResponse(error));
      return;
    }
    const observations = step.requested.map(({ uid, column }) => ({ uid, tensor: column.tensor }));
    reply({ case: "step", value: { state: RUNNING, observations } });
  }

  /**
   * Resets every row. A row that waits for its turn is reset after its step is answered, because an
   * agent with an outstanding step must not reset. A row that waits for a sequence to begin needs
   * no reset, unless it enters the sequence before those steps are answered.
   */
  reset(settings: PackedSettings, reply: Reply): void {
    const waiting = new Set(this.#rows.filter(({ pending }) => pending === "acting"));
    let left = 1;
    let error: DmEnvRpcError | undefined;
    const done = (): void => {
      left -= 1;
      if (left > 0 || waiting.size > 0) {
        return;
      }
      this.#openReset = undefined;
      try {
        if (!this.seats.every((seat) => this.#specs.fits(seat.specs))) {
          this.#specs = this.#specsOfSeats();
        }
      } catch (fault) {
        error ??= clientError(fault);
      }
      this.#forget();
      const specs = this.#specs.message;
      reply(
        error === undefined
          ? { case: "reset", value: create(ResetResponseSchema, { specs }) }
          : errorResponse(error),
      );
    };
    const reset = (row: Row): void => {
      waiting.delete(row);
      left += 1;
      row.answered = undefined;
      this.world.reset(row.seat, settings, (response) => {
        if (response.case === "error") {
          error ??= rowError(unpackStatus(response.value), row.index);
        }
        done();
      });
    };
    this.#openReset = { waiting, reset };
    for (const row of this.#rows.filter(({ pending }) => pending === undefined)) {
      reset(row);
    }
    done();
  }

  worldWasReset(): void {
    for (const row of this.#rows) {
      row.answered = undefined;
    }
    this.#forget();
  }

  /**
   * Clears the observations of the last sequence. Rows whose first result is not sent yet keep
   * theirs.
   */
  #forget(): void {
    for (const { index, answered } of this.#rows) {
      if (answered === undefined) {
        this.#specs.clear(index);
      }
    }
  }

  leave(done: Done<undefined>): void {
    let left = this.seats.length;
    for (const seat of this.seats) {
      this.world.leave(seat, () => {
        left -= 1;
        if (left === 0) {
          done(undefined);
        }
      });
    }
  }

  drop(): void {
    this.leave(() => {});
  }

  leaveIfWaiting(): void {
    for (const seat of this.seats) {
      this.world.leaveIfWaiting(seat);
    }
  }
}

/** Returns true if the next step of a seat is a first step instead of the delivery of an end. */
function isFirst({ state }: SeatView): boolean {
  if (state.kind !== "running") {
    return state.kind !== "ended";
  }
  return !state.entered && state.undelivered === undefined;
}

/** Copies the observations of a row, because they are valid only until the next response. */
function write({ index, requested }: Row, { observations }: StepResponse): void {
  let next = 0;
  for (const { column, own } of requested) {
    if (own !== undefined) {
      const { tensor } = observations[next] as UidTensor;
      const { data } = unpack(tensor);
      column.write(index, own.spec.shape.length === 0 ? data[0] : data);
      next += 1;
    }
  }
}

/**
 * Returns `step_type`, `terminated` or `truncated` of a row. A row without a result has the step
 * type LAST and neither end flag.
 */
function rowValueOf(name: string, answered: Row["answered"]): number {
  const { stepType = stepTypes.last, isTerminated = false } = answered ?? {};
  const hasEnded = answered !== undefined && stepType === stepTypes.last;
  switch (name) {
    case "step_type":
      return stepType;
    case "terminated":
      return hasEnded && isTerminated ? 1 : 0;
    default:
      return hasEnded && !isTerminated ? 1 : 0;
  }
}

function rowError(error: unknown, row: number): DmEnvRpcError {
  const { code, message } = clientError(error);
  return new DmEnvRpcError(code, `row ${row}: ${message}`, { cause: error });
}
