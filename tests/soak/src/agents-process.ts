// SPDX-License-Identifier: Apache-2.0
// The process of the agents. It receives one job, and sends a message when all agents play and one with the result.
import { churn, crowds, type Job, type Told } from "./play.ts";

const told: Told = {
  agents: 0,
  sent: 0,
  answered: 0,
  firsts: 0,
  taken: 0,
  wrong: 0,
  longestMs: 0,
  worlds: 0,
};

process.once("message", (job: Job) => {
  const played =
    job.kind === "crowds" ? crowds(job, told, () => process.send?.("playing")) : churn(job, told);
  played.then(
    () => process.send?.(told, () => process.disconnect()),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exit(1);
    },
  );
});
