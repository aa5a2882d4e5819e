// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "../definition/agent.ts";

/** Why a world is there no more: it was destroyed, it failed, or its `create` refused. */
export type WorldEnd = "destroyed" | "failed" | "refused";

/** Told what happens in a world; it must not throw. */
export interface WorldObserver {
  agentJoined(agent: AgentId): void;
  /** @param reason Why, unless the agent asked for it or its stream ended. */
  agentLeft(agent: AgentId, reason: DmEnvRpcError | undefined): void;
  sequenceStarted(): void;
  /** Nobody is in it any more. */
  emptied(): void;
  deadlineMissed(agent: AgentId): void;
  /** A property or an extension of the world went wrong, for the one who asked. */
  answerFailed(what: string, error: unknown): void;
}
