// SPDX-License-Identifier: Apache-2.0

/** Events of a matchmaker, for logs and metrics. */
export type MatchmakerEvent =
  /** This matchmaker has become the leader. */
  | { readonly kind: "leading" }
  /** This matchmaker no longer leads. */
  | { readonly kind: "following" }
  | { readonly kind: "ticked"; readonly tookMs: number; readonly waiting: number }
  | {
      readonly kind: "matched";
      readonly matchId: string;
      readonly profile: string;
      readonly serverId: string;
      readonly tickets: number;
    }
  | {
      readonly kind: "assigned";
      readonly matchId: string;
      readonly profile: string;
      readonly serverId: string;
      readonly worldName: string;
      readonly tickets: number;
      /** Time from the creation of each ticket to its assignment. */
      readonly waitedMs: readonly number[];
    }
  | { readonly kind: "world-created"; readonly serverId: string; readonly worldName: string }
  | { readonly kind: "world-reset"; readonly serverId: string; readonly worldName: string }
  | { readonly kind: "world-destroyed"; readonly serverId: string; readonly worldName: string }
  | { readonly kind: "world-adopted"; readonly serverId: string; readonly worldName: string }
  | {
      readonly kind: "world-failed";
      readonly serverId: string;
      readonly what: "create" | "destroy" | "reset";
      readonly error: Error;
    }
  | { readonly kind: "server-registered"; readonly serverId: string; readonly address: string }
  /** No dm_env_rpc server answered at the address of a registration. */
  | {
      readonly kind: "server-refused";
      readonly serverId: string;
      readonly address: string;
      readonly error: Error;
    }
  /** The allocator has allocated a server, which now gets its first world. */
  | { readonly kind: "server-allocated"; readonly serverId: string }
  /** The allocator could not allocate a server. Worlds are placed on other servers instead. */
  | { readonly kind: "allocation-failed"; readonly serverId: string; readonly error: Error }
  | { readonly kind: "server-lost"; readonly serverId: string }
  | { readonly kind: "server-gone"; readonly serverId: string }
  /** A ticket has reached its final state. `reason`: message with which the ticket failed. */
  | {
      readonly kind: "ticket-ended";
      readonly ticketId: string;
      readonly state: "completed" | "cancelled" | "failed";
      readonly reason: string | undefined;
    }
  /**
   * An operator's call was answered.
   *
   * - `who`: the caller's name or identity; its address if the caller has neither.
   * - `subject`: the name or id that the call is about.
   * - `outcome`: a gRPC code.
   */
  | {
      readonly kind: "operator-called";
      readonly who: string;
      readonly address: string;
      readonly method: string;
      readonly subject: string;
      readonly outcome: string;
    }
  /**
   * A call was refused: by a limit, because its caller is not authenticated, or because the caller may not make it.
   *
   * - `reason`: the name of the limit, otherwise a gRPC code.
   * - `who`: the caller's name or identity; its address if the caller has neither.
   */
  | {
      readonly kind: "call-refused";
      readonly reason: string;
      readonly method: string;
      readonly who: string;
      readonly address: string;
    }
  /** `authorize` threw, or took longer than `authorizeMs`. The call of the address was refused. */
  | { readonly kind: "authorize-failed"; readonly address: string; readonly error: Error }
  /**
   * A call failed because of the store or a fault of the matchmaker. The caller has received an error without these
   * details.
   */
  | { readonly kind: "call-failed"; readonly method: string; readonly error: Error }
  /**
   * A match function threw, took too long, or made an impossible proposal. Or a profile needs a match
   * function that this matchmaker does not have.
   */
  | { readonly kind: "bad-proposal"; readonly profile: string; readonly error: Error }
  /** The store could not be reached; the matchmaker retries. */
  | { readonly kind: "store-failed"; readonly error: Error }
  /** The store answers again. */
  | { readonly kind: "store-recovered" }
  /**
   * The store has lost commits: it was flushed, or restarted without all of its data. The matchmaker
   * restores configured profiles and the signing key, and servers register again. Lost tickets are not
   * restored.
   *
   * `records`: number of known records that are gone, or that the store has only in an older version.
   */
  | { readonly kind: "store-lost"; readonly records: number }
  /** A step of a tick failed, or a task failed. All other steps and tasks continue. */
  | { readonly kind: "step-failed"; readonly step: string; readonly error: Error };

/** Emits an event. Must not throw. */
export type Emit = (event: MatchmakerEvent) => void;
