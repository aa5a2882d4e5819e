// SPDX-License-Identifier: Apache-2.0

import { constants } from "node:fs";
import { copyFile, cp, mkdir, stat } from "node:fs/promises";
import { basename, delimiter, dirname, join, posix, relative } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { contextFiles } from "./context.ts";
import type { BuildStep, Stage } from "./dockerfile.ts";

/** A stage whose steps have been executed in a folder instead of an image. */
export interface BuiltStage {
  readonly stage: Stage;
  /** The folder that stands for the image's `/`. */
  readonly root: string;
  /** The folder that stands for WORKDIR. */
  readonly workdir: string;
  /** The folder of the base image's Node, readable by every user. */
  readonly bin: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Executes the steps of a Dockerfile's stages in plain folders, each stage once. */
export class DockerBuild {
  readonly #built = new Map<string, Promise<BuiltStage>>();
  readonly #stages: readonly Stage[];
  readonly #context: string;
  readonly #scratch: string;
  #node: Promise<string> | undefined;

  constructor(stages: readonly Stage[], context: string, scratch: string) {
    this.#stages = stages;
    this.#context = context;
    this.#scratch = scratch;
  }

  /** Builds a stage, after the stages that it copies from. */
  build(name: string): Promise<BuiltStage> {
    const begun = this.#built.get(name);
    if (begun !== undefined) {
      return begun;
    }
    const stage = this.#stages.find((known) => known.name === name);
    if (stage === undefined) {
      throw new Error(`the Dockerfile has no stage ${name}`);
    }
    const built = this.#take(stage);
    this.#built.set(name, built);
    return built;
  }

  async #take(stage: Stage): Promise<BuiltStage> {
    const root = join(this.#scratch, stage.name.replaceAll(" ", "-"));
    let workdir = "/";
    let env: Record<string, string> = {};
    await mkdir(root, { recursive: true });
    for (const step of stage.steps) {
      switch (step.kind) {
        case "workdir":
          workdir = posix.resolve(workdir, step.path);
          await mkdir(join(root, workdir), { recursive: true });
          break;
        case "env":
          env = { ...env, ...step.variables };
          break;
        case "run":
          await runStep(step.script, root, workdir, env);
          break;
        case "copy":
          await this.#copy(step, root, workdir);
          break;
      }
    }
    return { stage, root, workdir: join(root, workdir), bin: await this.#base(), env };
  }

  /** Copies the Node of this process to a folder that an image's user can read. */
  #base(): Promise<string> {
    const bin = join(this.#scratch, "base/bin");
    this.#node ??= mkdir(bin, { recursive: true })
      .then(() => copyFile(process.execPath, join(bin, "node"), constants.COPYFILE_FICLONE))
      .then(() => bin);
    return this.#node;
  }

  async #copy(step: BuildStep & { kind: "copy" }, root: string, workdir: string): Promise<void> {
    const target = join(root, posix.resolve(workdir, step.destination));
    const isFolder = /(^|\/)\.?$/.test(step.destination) || step.sources.length > 1;
    const from = step.from === undefined ? undefined : await this.build(step.from);
    const files = from === undefined ? await contextFiles(this.#context) : [];
    for (const source of step.sources) {
      if (from !== undefined) {
        await copyPath(join(from.root, posix.resolve("/", source)), target, isFolder);
        continue;
      }
      const path = posix.normalize(source).replace(/\/$/, "");
      const inside = files.filter(
        (file) => path === "." || file === path || file.startsWith(`${path}/`),
      );
      if (inside.length === 0) {
        throw new Error(`COPY ${source}: .dockerignore leaves nothing of it`);
      }
      for (const file of inside) {
        const place = file === path ? (isFolder ? basename(file) : "") : relative(path, file);
        await mkdir(dirname(join(target, place)), { recursive: true });
        await cp(join(this.#context, file), join(target, place));
      }
    }
  }
}

/** Runs a RUN's script in the stage's folder, which also receives global installs. */
async function runStep(
  script: string,
  root: string,
  workdir: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  if (/(^|[\s"'=])\/\w/.test(script)) {
    throw new Error(`expected paths that are relative to WORKDIR, outside a container: ${script}`);
  }
  const prefix = join(root, "usr/local");
  await mkdir(join(prefix, "bin"), { recursive: true });
  await run("sh", ["-c", script], {
    cwd: join(root, workdir),
    env: {
      ...process.env,
      CI: "true",
      ...env,
      NPM_CONFIG_PREFIX: prefix,
      PATH: [join(prefix, "bin"), dirname(process.execPath), "/usr/bin", "/bin"].join(delimiter),
    },
  });
}

async function copyPath(source: string, target: string, isFolder: boolean): Promise<void> {
  const kept = { recursive: true, verbatimSymlinks: true };
  if ((await stat(source)).isDirectory()) {
    await cp(source, target, kept);
  } else {
    await cp(source, isFolder ? join(target, basename(source)) : target, kept);
  }
}
