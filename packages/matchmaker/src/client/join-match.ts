// SPDX-License-Identifier: Apache-2.0
import {
  type ActionOf,
  type ConnectOptions,
  connect,
  type Environment,
  type JoinOptions,
  type NameOf,
  type ObservationOf,
} from "@dm-env-rpc/client";
import { DmEnvRpcError, type Specs } from "@dm-env-rpc/tensor-codec";
import { systemTime } from "@dm-env-rpc/transport/internal";
import { decodeJwt } from "jose";
import type { TicketAssignment } from "./matchmaker-client.ts";

/** Options of `joinMatch`: the options of `connection.join`, and of the connection. */
export interface JoinMatchOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends JoinOptions<A, O, N> {
  /** TLS, keepalive and limits of the connection. */
  readonly connect?: ConnectOptions | undefined;
}

/**
 * Takes the seat of an assignment: connects, presents the join token and joins the world. Closing
 * the environment leaves the world and closes the connection.
 *
 * The wait for the server ends after the time for which the matchmaker reserves the seat.
 *
 * With `connect: { reconnect }`, an agent whose connection is lost takes its seat again with the same token, because `keepSeat` is
 * then true by default: a random `seat_key` proves that it is the same agent. Set `keepSeat: false` for servers of other
 * libraries, which may refuse this join setting.
 *
 * @throws DmEnvRpcError of origin `connection` if the server cannot be reached, or DEADLINE_EXCEEDED
 *   if it has not answered in that time; of origin `server` if it refuses: UNAUTHENTICATED or
 *   PERMISSION_DENIED for the token, NOT_FOUND if the world is gone.
 *
 * @example
 * const assignment = await matchmakerClient("localhost:8990").findMatch({ profile: "duel" });
 * const environment = await joinMatch(assignment);
 */
export async function joinMatch<
  A extends Specs = Specs,
  O extends Specs = Specs,
  const N extends NameOf<O> = never,
>(
  assignment: Pick<TicketAssignment, "address" | "worldName" | "joinToken">,
  options: JoinMatchOptions<A, O, N> = {},
): Promise<Environment<ActionOf<A>, ObservationOf<O, N>>> {
  const { connect: connecting, ...join } = options;
  const { address, worldName, joinToken } = assignment;
  const expiry = new AbortController();
  const seatMs = reservedMs(joinToken);
  const stopTimer =
    seatMs === undefined
      ? undefined
      : systemTime.after(seatMs, () => expiry.abort(seatExpired(address, seatMs)));
  try {
    const reconnect = connecting?.reconnect;
    const connection = await connect(address, {
      ...connecting,
      ...(reconnect === undefined
        ? {}
        : { reconnect: { ...reconnect, keepSeat: reconnect.keepSeat ?? true } }),
      metadata: { ...connecting?.metadata, authorization: `Bearer ${joinToken}` },
      signal: anyOf(connecting?.signal, expiry.signal),
    });
    try {
      const environment = await connection.join<A, O, N>(worldName, {
        ...join,
        signal: anyOf(join.signal, expiry.signal),
      });
      return withConnection(environment, () => connection.close());
    } catch (error) {
      await connection.close();
      throw error;
    }
  } catch (error) {
    // A wait that a signal ends rejects with an error whose cause is the signal's reason.
    const { aborted, reason } = expiry.signal;
    throw aborted && error instanceof Error && error.cause === reason ? reason : error;
  } finally {
    stopTimer?.();
  }
}

function anyOf(given: AbortSignal | undefined, expiry: AbortSignal): AbortSignal {
  return given === undefined ? expiry : AbortSignal.any([given, expiry]);
}

/**
 * Returns the time for which the seat of a join token is reserved, from the token's issue to its expiry. Both are
 * by the matchmaker's clock, so this machine's clock need not be right. Returns undefined for a token without
 * these times.
 */
function reservedMs(joinToken: string): number | undefined {
  try {
    const { iat, exp } = decodeJwt(joinToken);
    return iat === undefined || exp === undefined ? undefined : (exp - iat) * 1_000;
  } catch {
    // The server refuses a malformed token with an error that says so.
    return undefined;
  }
}

function seatExpired(address: string, seatMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `the server at ${address} did not admit the agent within ${seatMs} ms, the time for which its seat was reserved; create another ticket`,
    { origin: "connection" },
  );
}

/** Returns an environment whose `close` also closes its connection. */
function withConnection<Action, Observation>(
  environment: Environment<Action, Observation>,
  closeConnection: () => Promise<void>,
): Environment<Action, Observation> {
  const close: Environment["close"] = async (options) => {
    try {
      await environment.close(options);
    } finally {
      await closeConnection();
    }
  };
  return {
    world: environment.world,
    connection: environment.connection,
    get specs() {
      return environment.specs;
    },
    reset: (options) => environment.reset(options),
    step: (action, options) => environment.step(action, options),
    stepMany: (actions, options) => environment.stepMany(actions, options),
    actionSpec: () => environment.actionSpec(),
    observationSpec: () => environment.observationSpec(),
    rewardSpec: () => environment.rewardSpec(),
    discountSpec: () => environment.discountSpec(),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/**
 * Returns the URL at which a person takes the seat of an assignment, on the page of the server
 * (`serve({ page: true })`). The join token is in the fragment, which browsers do not send.
 *
 * @example
 * const assignment = await matchmakerClient("https://play.example.org:8990").findMatch();
 * location.assign(pageOf(assignment));
 */
export function pageOf({
  address,
  worldName,
  joinToken,
}: Pick<TicketAssignment, "address" | "worldName" | "joinToken">): string {
  const { origin } = new URL(address.includes("://") ? address : `http://${address}`);
  const parameters = new URLSearchParams({ join_token: joinToken });
  return `${origin}/#/world/${encodeURIComponent(worldName)}?${parameters}`;
}
