// SPDX-License-Identifier: Apache-2.0
import { cpus, release, totalmem, type } from "node:os";

/** The machine of a run. */
export interface Machine {
  readonly cores: number;
  readonly cpu: string;
  readonly memoryBytes: number;
  readonly system: string;
}

/** Returns this machine. */
export function machine(): Machine {
  const cores = cpus();
  return {
    cores: cores.length,
    cpu: cores[0]?.model.trim() ?? "unknown",
    memoryBytes: totalmem(),
    system: `${type()} ${release()}`,
  };
}
