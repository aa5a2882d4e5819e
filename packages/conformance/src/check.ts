// SPDX-License-Identifier: Apache-2.0
import type { ConformanceConfig } from "./config.ts";
import type { ProtocolName } from "./protocol-name.ts";
import type { Stage } from "./stage.ts";

/** A document that sections of checks are in. */
export type SpecDocument =
  | "overview.md"
  | "reference.md"
  | "extensions/properties.md"
  | "dm_env_rpc.proto"
  | "behaviours.md";

/** Where each document is. */
export const documents: Readonly<Record<SpecDocument, string>> = {
  "overview.md": "https://github.com/google-deepmind/dm_env_rpc/blob/HEAD/docs/v1/overview.md",
  "reference.md": "https://github.com/google-deepmind/dm_env_rpc/blob/HEAD/docs/v1/reference.md",
  "extensions/properties.md":
    "https://github.com/google-deepmind/dm_env_rpc/blob/HEAD/docs/v1/extensions/properties.md",
  "dm_env_rpc.proto":
    "https://github.com/google-deepmind/dm_env_rpc/blob/HEAD/dm_env_rpc/v1/dm_env_rpc.proto",
  "behaviours.md":
    "docs/behaviours.md of dm_env_rpc for TypeScript: what it promises where the protocol leaves a choice",
};

/** One rule of the protocol that the suite checks. */
export interface CheckInfo {
  /** The behaviour's number and a few words, such as `27.join-twice`: what filters and lists of failures name. */
  readonly id: string;
  /** Its line in the list of behaviours. */
  readonly behaviour: number;
  /** What holds when the check passes, as a sentence. */
  readonly title: string;
  /** Where that is written. */
  readonly section: `${SpecDocument}, ${string}`;
  /** Why the check has nothing to do on a server that is configured like this. */
  readonly notFor?: (config: ConformanceConfig, protocol: ProtocolName) => string | undefined;
}

/** A rule, and how to see whether a server keeps it. */
export interface Check extends CheckInfo {
  /**
   * Plays what it takes.
   *
   * @throws Mismatch saying what was expected and what came.
   * @throws NothingToCheck when the world has nothing to try the rule on.
   */
  readonly run: (stage: Stage) => Promise<void>;
}

/** What of a line of the list of behaviours no client can see kept, and why. */
export interface Unseen {
  readonly behaviour: number;
  /** The rule, as a sentence. */
  readonly what: string;
  readonly reason: string;
}

/** Declares checks of one section. */
export function checksOf(
  behaviour: number,
  section: CheckInfo["section"],
  checks: Readonly<Record<string, Omit<Check, "id" | "behaviour" | "section">>>,
): readonly Check[] {
  return Object.entries(checks).map(([name, check]) => ({
    id: `${behaviour}.${name}`,
    behaviour,
    section,
    ...check,
  }));
}
