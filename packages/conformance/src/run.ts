// SPDX-License-Identifier: Apache-2.0
import type { Check, CheckInfo } from "./check.ts";
import { checks, unseen } from "./checks/index.ts";
import { agentCounts, type ConformanceConfig } from "./config.ts";
import { Mismatch } from "./mismatch.ts";
import { NothingToCheck } from "./nothing-to-check.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { Stage } from "./stage.ts";

/** Outcome of a check. */
export type Outcome =
  /** The server keeps the rule. */
  | { readonly kind: "passed" }
  /** The server violates the rule. */
  | { readonly kind: "failed"; readonly expected: string; readonly received: string }
  /** The server violates the rule, as `knownFailing` expects. */
  | { readonly kind: "known-failure"; readonly expected: string; readonly received: string }
  /** The server keeps the rule although `knownFailing` lists it. */
  | { readonly kind: "unexpected-pass" }
  /** The check was skipped. */
  | { readonly kind: "not-applicable"; readonly reason: string };

/** A check with its outcome. */
export interface CheckResult {
  readonly id: string;
  readonly behaviour: number;
  readonly title: string;
  readonly section: string;
  readonly outcome: Outcome;
  readonly milliseconds: number;
}

/** Outcomes of all checks against a server. */
export interface ConformanceReport {
  readonly address: string;
  readonly protocol: ProtocolName;
  readonly results: readonly CheckResult[];
  /** Number of results of each kind. */
  readonly counts: Readonly<Record<Outcome["kind"], number>>;
  /** True if the failed checks are exactly those in `knownFailing`. */
  readonly ok: boolean;
}

/** Options of `runConformance`. */
export interface RunOptions {
  /** `host:port` of the server. */
  readonly address: string;
  /** RPC protocol. Default `grpc`. */
  readonly protocol?: ProtocolName | undefined;
  readonly config?: ConformanceConfig | undefined;
  /** Runs only checks whose id or title contains this text. */
  readonly filter?: string | undefined;
  /** Called before each check. */
  readonly onCheck?: ((check: CheckInfo, done: number, total: number) => void) | undefined;
  /** Called after each check. */
  readonly onResult?: ((result: CheckResult, done: number, total: number) => void) | undefined;
}

/** Returns the checks whose id or title contains the filter. */
export function selectChecks(filter = ""): readonly Check[] {
  const wanted = filter.toLowerCase();
  return checks.filter(
    ({ id, title }) => id.includes(wanted) || title.toLowerCase().includes(wanted),
  );
}

/**
 * Runs the checks against a server, one after the other, each with its own connections and
 * worlds.
 *
 * @throws DmEnvRpcError of origin `connection` if the server cannot be reached.
 * @throws Error if `knownFailing` contains an unknown id, or worlds need more agents than the config
 *   allows for.
 * @example
 * const report = await runConformance({ address: "localhost:8980", config: { agents: 2 } });
 * console.log(reportText(report, false));
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
  return { kind: "failed", expected: "the check to run to its end", received: String(error) };
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
    throw new Error(
      `unknown check "${id}" in "knownFailing" of the config; --list prints all checks`,
    );
  }
}

/**
 * Checks that the server can be reached and that a world answers first steps once `agents.min` agents
 * have joined.
 *
 * @throws DmEnvRpcError of origin `connection` if the server cannot be reached.
 * @throws Error if first steps are answered only after more agents have joined.
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
        `the world needs more agents than the config allows for: expected first steps to be answered with ${min} ` +
          `joined, received no answer before ${needed} had; set "agents": ${agents} in the config`,
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
