// SPDX-License-Identifier: Apache-2.0
// The process of the agents. It receives one job, and sends a message when all agents play and one with the result.
import { type Counters, churn, crowds, type Job } from "./play.ts";

const counters: Counters = {
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
    job.kind === "crowds"
      ? crowds(job, counters, () => process.send?.("playing"))
      : churn(job, counters);
  played.then(
    () => process.send?.(counters, () => process.disconnect()),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exit(1);
    },
  );
});
