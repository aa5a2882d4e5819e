// SPDX-License-Identifier: Apache-2.0
import { type Outcome, Program } from "@dm-env-rpc/tests-processes";
import type { BuiltStage } from "./build.ts";

/** What a container of the image would run: the entrypoint with the command, or with `args` in its place. */
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

/** Asks for the health of a container as its HEALTHCHECK does. */
export async function askHealth(
  { stage, workdir, bin, env }: BuiltStage,
  port: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  if (stage.health === undefined || stage.health === "none") {
    throw new Error(`expected a HEALTHCHECK in ${stage.name}`);
  }
  const [program = "", ...args] = stage.health.map((word) =>
    // The port that the image has, which the machine may not have free.
    word.replace(/:\d+$/, `:${port}`),
  );
  const asked = new Program(program, args, {
    cwd: workdir,
    env: { PATH: bin, ...env, ...variables },
    ...userOf(stage.user),
  });
  return await asked.outcome();
}

/** The image's user, where this process may choose one. */
function userOf(user: string | undefined): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) {
    return {};
  }
  const [uid = Number.NaN, gid = Number.NaN] = (user ?? "").split(":").map(Number);
  if (!(uid > 0 && gid > 0)) {
    throw new Error(`expected USER as uid:gid, not root's, found ${user}`);
  }
  return { uid, gid };
}
