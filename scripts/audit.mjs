// SPDX-License-Identifier: Apache-2.0
// Requests the known vulnerabilities of every dependency from the registry, and exits with 1 if it finds one:
//
//   node scripts/audit.mjs
//
// An advisory that does not concern this repository is listed, with the reason, under
// `auditConfig.ignoreGhsas` in pnpm-workspace.yaml. If the registry cannot be reached, the script passes.
import { spawnSync } from "node:child_process";

/** Errors of pnpm for a registry that is out of reach or has no audit endpoint. */
const unreachable = /ERR_PNPM_AUDIT_(BAD_RESPONSE|ENDPOINT_NOT_EXISTS)/;

const { status, stdout, stderr } = spawnSync("pnpm", ["audit"], {
  encoding: "utf8",
  shell: process.platform === "win32",
});
const output = `${stdout ?? ""}${stderr ?? ""}`.trim();
process.stdout.write(`${output}\n`);
if (status !== 0 && unreachable.test(output)) {
  process.stdout.write("not audited: the registry does not answer\n");
} else {
  process.exitCode = status === 0 ? 0 : 1;
}
