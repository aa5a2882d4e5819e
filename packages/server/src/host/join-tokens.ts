// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { isRefusal } from "../engine/author-calls.ts";
import { publicMessageOf } from "../engine/public-message.ts";
import { clientError } from "../engine/responses.ts";
import type { TakenSeat, TakeSeat } from "../session/seat-tokens.ts";
import type { Emit } from "./events.ts";

/**
 * Reserves the seat of a join token before the join reaches its world.
 *
 * @param token The string in the join setting `join_token`, else the bearer token in the stream's
 * metadata (`authorization: Bearer …`); undefined if the agent sent no token.
 * @param seatKey The join setting `seat_key`; undefined if the agent sent none. If the agent that has the seat joined with
 * the same key, it may take its seat again: the loss of its earlier stream has not been noticed yet.
 * @throws DmEnvRpcError that refuses the join, such as UNAUTHENTICATED or PERMISSION_DENIED; any
 *   other error refuses it as INTERNAL.
 */
export type JoinToken = (
  token: string | undefined,
  worldName: string,
  seatKey: string | undefined,
) => Awaitable<TakenSeat>;

/** Options of `createTakeSeat`. */
export interface SeatTakingOptions {
  /** Default: agents join without a token. */
  readonly joinToken: JoinToken | undefined;
  readonly joinMs: number;
  readonly time: TimeSource;
  readonly emit: Emit;
}

const unreservedSeat: TakenSeat = { leave() {}, giveBack() {} };

/** Creates the function that reserves the seats of join tokens. */
export function createTakeSeat({ joinToken, joinMs, time, emit }: SeatTakingOptions): TakeSeat {
  if (joinToken === undefined) {
    return (_token, _worldName, _seatKey, done) => {
      done(unreservedSeat);
      return () => {};
    };
  }
  return (token, worldName, seatKey, done) => {
    let isOpen = true;
    let cancel = (): void => {};
    const settle = (result: TakenSeat | DmEnvRpcError): void => {
      if (!isOpen) {
        return;
      }
      isOpen = false;
      cancel();
      done(result);
    };
    const taken = (seat: TakenSeat): void => {
      const own = careful(seat, (error) => emit({ kind: "seat-failed", worldName, error }));
      if (isOpen) {
        settle(own);
      } else {
        own.giveBack();
      }
    };
    const failed = (error: unknown): void => settle(refusal(error));
    try {
      const seat = joinToken(token, worldName, seatKey);
      if (isPromiseLike(seat)) {
        cancel = time.after(joinMs, () => settle(overdue(joinMs)));
        seat.then(taken, failed);
      } else {
        taken(seat);
      }
    } catch (error) {
      failed(error);
    }
    return () => {
      isOpen = false;
      cancel();
    };
  };
}

/** Returns the same seat, with functions that report their failures. */
function careful(seat: TakenSeat, onError: (error: unknown) => void): TakenSeat {
  const call = async (run: () => unknown): Promise<void> => {
    try {
      await run();
    } catch (error) {
      onError(error);
    }
  };
  return {
    settings: seat.settings,
    key: seat.key,
    traceparent: seat.traceparent,
    hold: () => void call(() => seat.hold?.()),
    leave: () => void call(() => seat.leave()),
    giveBack: () => void call(() => seat.giveBack()),
  };
}

function refusal(error: unknown): DmEnvRpcError {
  if (isRefusal(error)) {
    return clientError(error);
  }
  return new DmEnvRpcError(
    "INTERNAL",
    `the server could not check the join token: ${publicMessageOf(error)}; try again later`,
    { cause: error },
  );
}

function overdue(joinMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the join token was not checked within ${joinMs} ms (limit: joinMs); try again later`,
  );
}
