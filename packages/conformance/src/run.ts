// SPDX-License-Identifier: Apache-2.0
import type { Check, CheckInfo } from "./check.ts";
import { checks, unseen } from "./checks/index.ts";
import { agentCounts, type ConformanceConfig } from "./config.ts";
import { Mismatch } from "./mismatch.ts";
import { NothingToCheck } from "./nothing-to-check.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { Stage } from "./stage.ts";

/** What became of a check. */
export type Outcome =
  /** The server keeps the rule. */
  | { readonly kind: "passed" }
  /** It does not. */
  | { readonly kind: "failed"; readonly expected: string; readonly received: string }
  /** It does not, which the config knows of. */
  | { readonly kind: "known-failure"; readonly expected: string; readonly received: string }
  /** It does, although the config says that it fails: the list is out of date. */
  | { readonly kind: "unexpected-pass" }
  /** There was nothing to check. */
  | { readonly kind: "not-applicable"; readonly reason: string };

/** A check that was run, or was not. */
export interface CheckResult {
  readonly id: string;
  readonly behaviour: number;
  readonly title: string;
  readonly section: string;
  readonly outcome: Outcome;
  readonly milliseconds: number;
}

/** What a server did. */
export interface ConformanceReport {
  readonly address: string;
  readonly protocol: ProtocolName;
  readonly results: readonly CheckResult[];
  /** How many results there are of each kind. */
  readonly counts: Readonly<Record<Outcome["kind"], number>>;
  /** Whether nothing failed but what was known to, and all of that did. */
  readonly ok: boolean;
}

/** How to run the checks. */
export interface RunOptions {
  /** `host:port` of the server. */
  readonly address: string;
  /** What to speak. Default `grpc`. */
  readonly protocol?: ProtocolName | undefined;
  readonly config?: ConformanceConfig | undefined;
  /** Runs only the checks whose id or title has this in it. */
  readonly filter?: string | undefined;
  /** Told of each check before it runs. */
  readonly onCheck?: ((check: CheckInfo, done: number, total: number) => void) | undefined;
  /** Told of each result as it comes. */
  readonly onResult?: ((result: CheckResult, done: number, total: number) => void) | undefined;
}

/** The checks that a filter lets through. */
export function selectChecks(filter = ""): readonly Check[] {
  const wanted = filter.toLowerCase();
  return checks.filter(
    ({ id, title }) => id.includes(wanted) || title.toLowerCase().includes(wanted),
  );
}

/**
 * Runs the checks against a server, one after the other, each on connections and in
 * worlds of its own.
 *
 * @throws DmEnvRpcError of origin `connection` when the server cannot be reached.
 * @throws Error when the config's list of known failures names what is no check, or worlds need
 *   more agents than the config says.
 */
export async function runConformance(options: RunOptions): Promise<ConformanceReport> {
  const { address, protocol = "grpc", config = {}, filter, onCheck, onResult } = options;
  checkKnownFailing(config);
  await reach(address, protocol, config);
  const selected = selectChecks(filter);
  const results: CheckResult[] = [];
  for (const check of selected) {
    onCheck?.(check, results.length, selected.length);
    const result = await runCheck(check, { address, protocol, config });
    results.push(result);
    onResult?.(result, results.length, selected.length);
  }
  if (filter === undefined) {
    results.push(...unseen.map(unseenResult));
  }
  const counts = countOf(results);
  const ok = counts.failed === 0 && counts["unexpected-pass"] === 0;
  return { address, protocol, results, counts, ok };
}

/** Runs one check. */
export async function runCheck(
  check: Check,
  options: Pick<RunOptions, "address"> & {
    readonly protocol: ProtocolName;
    readonly config: ConformanceConfig;
  },
): Promise<CheckResult> {
  const { address, protocol, config } = options;
  const { id, behaviour, title, section } = check;
  const reason = check.notFor?.(config, protocol);
  const start = performance.now();
  const outcome: Outcome =
    reason === undefined
      ? inLightOf(config, id, await play(check, new Stage(address, protocol, config)))
      : { kind: "not-applicable", reason };
  return { id, behaviour, title, section, outcome, milliseconds: performance.now() - start };
}

async function play(check: Check, stage: Stage): Promise<Outcome> {
  let outcome: Outcome = { kind: "passed" };
  try {
    await check.run(stage);
  } catch (error) {
    outcome = failure(error);
  }
  try {
    await stage.clear();
  } catch (error) {
    if (outcome.kind === "passed") {
      outcome = failure(error);
    }
  }
  return outcome;
}

function failure(error: unknown): Outcome {
  if (error instanceof NothingToCheck) {
    return { kind: "not-applicable", reason: error.message };
  }
  if (error instanceof Mismatch) {
    return { kind: "failed", expected: error.expected, received: error.received };
  }
  return { kind: "failed", expected: "the check to be played to its end", received: String(error) };
}

function inLightOf(
  { knownFailing = [] }: ConformanceConfig,
  id: string,
  outcome: Outcome,
): Outcome {
  if (!knownFailing.includes(id)) {
    return outcome;
  }
  if (outcome.kind === "passed") {
    return { kind: "unexpected-pass" };
  }
  return outcome.kind === "failed" ? { ...outcome, kind: "known-failure" } : outcome;
}

function checkKnownFailing({ knownFailing = [] }: ConformanceConfig): void {
  for (const id of knownFailing) {
    if (checks.some((check) => check.id === id)) {
      continue;
    }
    throw new Error(`"knownFailing" of the config has "${id}", which is no check; see --list`);
  }
}

/**
 * Finds out before the first check whether the server can be reached, and whether a world answers
 * the first steps of as many agents as the config says that it needs.
 *
 * @throws DmEnvRpcError of origin `connection` when the server cannot be reached.
 * @throws Error when first steps are answered only after more agents have joined.
 */
export async function reach(
  address: string,
  protocol: ProtocolName,
  config: ConformanceConfig,
): Promise<void> {
  const stage = new Stage(address, protocol, config);
  await stage.connect();
  try {
    const needed = await stage.neededAgents();
    const { min, max } = agentCounts(config);
    if (needed !== undefined && needed > min) {
      const agents = JSON.stringify({ min: needed, max: Math.max(needed, max) });
      throw new Error(
        `the world needs more agents than the config says: expected first steps to be answered with ${min} ` +
          `joined, received no answer before ${needed} had; say "agents": ${agents} in the config`,
      );
    }
  } finally {
    await stage.clear();
  }
}

function unseenResult({ behaviour, what, reason }: (typeof unseen)[number]): CheckResult {
  return {
    id: `${behaviour}.unseen`,
    behaviour,
    title: what,
    section: "behaviours.md",
    outcome: { kind: "not-applicable", reason },
    milliseconds: 0,
  };
}

function countOf(results: readonly CheckResult[]): Record<Outcome["kind"], number> {
  const counts = {
    passed: 0,
    failed: 0,
    "known-failure": 0,
    "unexpected-pass": 0,
    "not-applicable": 0,
  };
  for (const { outcome } of results) {
    counts[outcome.kind] += 1;
  }
  return counts;
}
