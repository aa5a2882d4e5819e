// SPDX-License-Identifier: Apache-2.0
import type { ConformanceConfig } from "./config.ts";
import type { ProtocolName } from "./protocol-name.ts";
import type { Stage } from "./stage.ts";

/** A document that specifies checked rules. */
export type SpecDocument =
  | "overview.md"
  | "reference.md"
  | "extensions/properties.md"
  | "dm_env_rpc.proto"
  | "behaviours.md";

/** The location of each document. */
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

/** A rule of the protocol that the suite checks. */
export interface CheckInfo {
  /** The behaviour's number and a few words, such as `27.join-twice`; filters and `knownFailing` refer to it. */
  readonly id: string;
  /** Number of the behaviour. */
  readonly behaviour: number;
  /** The rule, as a sentence. */
  readonly title: string;
  /** The section that specifies the rule. */
  readonly section: `${SpecDocument}, ${string}`;
  /** Returns the reason to skip the check on a server with this config; undefined to run it. */
  readonly notFor?: (config: ConformanceConfig, protocol: ProtocolName) => string | undefined;
}

/** A rule with the code that checks it. */
export interface Check extends CheckInfo {
  /**
   * Checks the rule.
   *
   * @throws Mismatch with the expected and the received value.
   * @throws NothingToCheck if the world lacks what the check needs.
   */
  readonly run: (stage: Stage) => Promise<void>;
}

/** A part of a behaviour that a client cannot observe. */
export interface Unseen {
  readonly behaviour: number;
  /** The rule, as a sentence. */
  readonly what: string;
  readonly reason: string;
}

/** Declares checks of one behaviour. */
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
