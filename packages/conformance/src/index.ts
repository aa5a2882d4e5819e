// SPDX-License-Identifier: Apache-2.0
/** Checks of the rules of dm_env_rpc, for any server. */
export type { CheckInfo, SpecDocument } from "./check.ts";
export { allChecks } from "./checks/index.ts";
export {
  type AgentCounts,
  type ClockName,
  type ConformanceConfig,
  type Counted,
  clockNames,
} from "./config.ts";
export { parseConfig } from "./config-file.ts";
export type { ProtocolName } from "./protocol-name.ts";
export { jsonReport, junitReport } from "./report/files.ts";
export { reportText, resultText, summaryText } from "./report/table.ts";
export {
  type CheckResult,
  type ConformanceReport,
  type Outcome,
  type RunOptions,
  runConformance,
} from "./run.ts";
