// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Events that a relay emits, for logs and metrics. */
export type RelayEvent =
  /** A program registered: agents reach it at `address`. `from` is the program's own address. */
  | {
      readonly kind: "program-joined";
      readonly program: string;
      readonly address: string;
      readonly from: string;
    }
  /** A program was refused a place. */
  | { readonly kind: "program-refused"; readonly from: string; readonly error: DmEnvRpcError }
  /** A program, and with it the streams of its agents, was lost. */
  | { readonly kind: "program-lost"; readonly program: string; readonly error: DmEnvRpcError }
  /** An agent opened a stream to a program. */
  | { readonly kind: "agent-joined"; readonly program: string; readonly from: string }
  /** An agent's stream closed: normally, or with the error. */
  | {
      readonly kind: "agent-left";
      readonly program: string;
      readonly from: string;
      readonly error: Error | undefined;
    }
  /** A transport error that belongs to no stream. */
  | { readonly kind: "transport-error"; readonly error: Error };
