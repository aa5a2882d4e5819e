// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Peer } from "@dm-env-rpc/transport";
import {
  messageOf,
  type RefusalCounts,
  type TimeSource,
  toError,
} from "@dm-env-rpc/transport/internal";
import { type Awaitable, isPromiseLike } from "../definition/awaitable.ts";
import { everyRole, type Role, type Roles } from "../definition/roles.ts";
import type { Emit } from "./events.ts";

/**
 * Returns the roles of a connection from the metadata of its call and its certificate (DER, for
 * `new X509Certificate`). If it returns undefined or throws, the stream is ended with
 * UNAUTHENTICATED, and only `onEvent` receives the error.
 */
export type Authorize = (peer: Peer) => Awaitable<readonly Role[] | undefined>;

/** Options of `createAdmission`. */
export interface AdmissionOptions {
  readonly authorize: Authorize | undefined;
  readonly authorizeMs: number;
  /** Counts connections whose authorization takes too long. */
  readonly refusals: RefusalCounts;
  readonly time: TimeSource;
  readonly emit: Emit;
}

/** Decides the roles of a peer, or the error that refuses it. */
export type Admission = (peer: Peer, decided: (result: Roles | DmEnvRpcError) => void) => void;

/** Creates the admission of streams and spectators. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { authorize, authorizeMs, refusals, time, emit } = options;
  if (authorize === undefined) {
    return (_peer, decided) => decided(everyRole);
  }
  return (peer, decided) => {
    let open = true;
    let cancel = (): void => {};
    const decide = (finish: () => void): void => {
      if (!open) {
        return;
      }
      open = false;
      cancel();
      finish();
    };
    const refuse = (status: DmEnvRpcError, error: Error | undefined): void => {
      emit({ kind: "connection-refused", address: peer.address, error });
      decided(status);
    };
    const fail = (error: unknown): void => decide(() => refuse(unauthenticated(), toError(error)));
    const grant = (roles: readonly Role[] | undefined): void => {
      if (roles !== undefined && !areRoles(roles)) {
        fail(new TypeError(`${expectedRoles}, received ${describe(roles)}`));
        return;
      }
      decide(() => {
        if (roles === undefined) {
          refuse(unauthenticated(), undefined);
        } else {
          decided(new Set(roles));
        }
      });
    };
    try {
      const roles = authorize(peer);
      if (!isPromiseLike(roles)) {
        grant(roles);
        return;
      }
      cancel = time.after(authorizeMs, () =>
        decide(() => {
          const late = overdue(authorizeMs);
          refusals.count("authorizeMs");
          refuse(late, late);
        }),
      );
      roles.then(grant, fail);
    } catch (error) {
      fail(error);
    }
  };
}

const expectedRoles =
  'expected "authorize" to return a list of "agent", "operator" and "spectator", or undefined';

function areRoles(roles: unknown): boolean {
  return Array.isArray(roles) && roles.every((role) => everyRole.has(role));
}

function describe(roles: unknown): string {
  return Array.isArray(roles) ? `[${messageOf(roles)}]` : messageOf(roles);
}

function unauthenticated(): DmEnvRpcError {
  return new DmEnvRpcError(
    "UNAUTHENTICATED",
    "this server did not authorize the connection; check the credentials in the call's metadata, or your certificate",
  );
}

function overdue(authorizeMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `authorization did not finish within ${authorizeMs} ms; try again later (limit: authorizeMs)`,
  );
}
