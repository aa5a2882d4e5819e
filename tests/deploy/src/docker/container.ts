// SPDX-License-Identifier: Apache-2.0
import { type Outcome, Program } from "@dm-env-rpc/tests-processes";
import type { BuiltStage } from "./build.ts";

/** Runs what a container of the image would run: the entrypoint with the command, or with `args` instead. */
export function startContainer(
  { stage, workdir, bin, env }: BuiltStage,
  args: readonly string[] = stage.command,
  variables: Readonly<Record<string, string>> = {},
): Program {
  const [program = "", ...others] = [...stage.entrypoint, ...args];
  return new Program(program, others, {
    cwd: workdir,
    env: { PATH: bin, ...env, ...variables },
    ...userOf(stage.user),
  });
}

/** Checks the health of a container with its HEALTHCHECK. */
export async function askHealth(
  { stage, workdir, bin, env }: BuiltStage,
  port: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  if (stage.health === undefined || stage.health === "none") {
    throw new Error(`expected a HEALTHCHECK in ${stage.name}`);
  }
  const [program = "", ...args] = stage.health.map((word) =>
    // The image's port may not be free on this machine.
    word.replace(/:\d+$/, `:${port}`),
  );
  const asked = new Program(program, args, {
    cwd: workdir,
    env: { PATH: bin, ...env, ...variables },
    ...userOf(stage.user),
  });
  return await asked.outcome();
}

/** Returns the image's user, if this process may choose one. */
function userOf(user: string | undefined): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) {
    return {};
  }
  const [uid = Number.NaN, gid = Number.NaN] = (user ?? "").split(":").map(Number);
  if (!(uid > 0 && gid > 0)) {
    throw new Error(`expected USER as uid:gid other than root, received ${user}`);
  }
  return { uid, gid };
}
