// SPDX-License-Identifier: Apache-2.0
import {
  Copy,
  DockerfileParser,
  Env,
  From,
  Healthcheck,
  type Instruction,
  JSONInstruction,
} from "dockerfile-ast";

/** One instruction that changes the image. */
export type BuildStep =
  | { readonly kind: "workdir"; readonly path: string }
  | { readonly kind: "env"; readonly variables: Readonly<Record<string, string>> }
  | { readonly kind: "run"; readonly script: string }
  | {
      readonly kind: "copy";
      readonly from: string | undefined;
      readonly sources: readonly string[];
      readonly destination: string;
    };

/** The command, user and health check of an image's containers. */
export interface ImageSettings {
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  /** The command of the health check; "none" if the image disables it. */
  readonly health: readonly string[] | "none" | undefined;
  readonly user: string | undefined;
  /** Ports and ranges of ports, such as `9000-9009`. */
  readonly ports: readonly string[];
  readonly stopSignal: string | undefined;
}

/** The instructions between one FROM and the next. */
export interface Stage extends ImageSettings {
  readonly name: string;
  readonly base: string;
  readonly steps: readonly BuildStep[];
}

/**
 * Reads a Dockerfile.
 *
 * @throws Error for an unsupported instruction, and for a command in shell form.
 */
export function readDockerfile(text: string): readonly Stage[] {
  const stages: Mutable<Stage>[] = [];
  for (const instruction of DockerfileParser.parse(text).getInstructions()) {
    if (instruction instanceof From) {
      stages.push({
        name: instruction.getBuildStage() ?? `stage ${stages.length}`,
        base: instruction.getImage() ?? "",
        steps: [],
        entrypoint: [],
        command: [],
        health: undefined,
        user: undefined,
        ports: [],
        stopSignal: undefined,
      });
      continue;
    }
    const stage = stages.at(-1);
    if (stage === undefined) {
      throw new Error(`expected FROM first, received ${instruction}`);
    }
    add(stage, instruction);
  }
  return stages;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function add(stage: Mutable<Stage>, instruction: Instruction): void {
  const words = instruction.getArguments().map((argument) => argument.getValue());
  const text = instruction.getArgumentsContent() ?? "";
  const step = (added: BuildStep): void => {
    stage.steps = [...stage.steps, added];
  };
  switch (instruction.getKeyword()) {
    case "WORKDIR":
      step({ kind: "workdir", path: text });
      return;
    case "ENV": {
      const properties = instruction instanceof Env ? instruction.getProperties() : [];
      const variables = properties.map((property) => [
        property.getName(),
        property.getValue() ?? "",
      ]);
      step({ kind: "env", variables: Object.fromEntries(variables) });
      return;
    }
    case "RUN":
      step({ kind: "run", script: text });
      return;
    case "COPY": {
      const from = instruction instanceof Copy ? instruction.getFromFlag()?.getValue() : undefined;
      const destination = words.pop() ?? "";
      step({ kind: "copy", from: from ?? undefined, sources: words, destination });
      return;
    }
    case "ENTRYPOINT":
      stage.entrypoint = listOf(instruction);
      return;
    case "CMD":
      stage.command = listOf(instruction);
      return;
    case "HEALTHCHECK":
      stage.health = healthOf(instruction);
      return;
    case "USER":
      stage.user = text;
      return;
    case "EXPOSE":
      stage.ports = [...stage.ports, ...words];
      return;
    case "STOPSIGNAL":
      stage.stopSignal = text;
      return;
    default:
      throw new Error(`the instruction ${instruction.getKeyword()} is not supported: add it`);
  }
}

/** Returns a command in exec form. The shell form would run it in a shell, which does not forward signals. */
function listOf(instruction: Instruction): string[] {
  if (!(instruction instanceof JSONInstruction) || instruction.getOpeningBracket() === null) {
    throw new Error(`expected a list of words in brackets: ${instruction}`);
  }
  return instruction.getJSONStrings().map((word) => JSON.parse(word.getValue()));
}

function healthOf(instruction: Instruction): string[] | "none" {
  const text = instruction.getArgumentsContent() ?? "";
  if (text === "NONE") {
    return "none";
  }
  const [, list] = /\bCMD (\[.*\])$/.exec(text) ?? [];
  if (!(instruction instanceof Healthcheck) || list === undefined) {
    throw new Error(`expected CMD and a list of words in brackets: ${instruction}`);
  }
  return JSON.parse(list);
}
