// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A program of agents in one language. */
export interface Language {
  readonly language: "typescript" | "python" | "go";
  readonly program: string;
  readonly args: readonly string[];
}

/** A language that cannot be run here. */
export interface MissingLanguage {
  readonly language: Language["language"];
  readonly reason: string;
}

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const interopPython = here("../../../interop/.venv/bin/python");

/** The agents in TypeScript. */
export const typescript: Language = {
  language: "typescript",
  program: process.execPath,
  args: [here("./agents.js")],
};

/** Returns the agents in Python, with the official package, or why they cannot run. */
export function python(): Language | MissingLanguage {
  if (!existsSync(interopPython)) {
    const reason = "without its venv; node scripts/python.mjs --version makes it";
    return { language: "python", reason };
  }
  return { language: "python", program: interopPython, args: [here("../../python/agents.py")] };
}

/** Builds the agents in Go into a folder, and returns them, or why they cannot run. */
export function go(folder: string): Language | MissingLanguage {
  const program = join(folder, "agents");
  const { status, error, stderr } = spawnSync("go", ["build", "-o", program, "."], {
    cwd: here("../../go"),
    encoding: "utf8",
  });
  if (status === 0) {
    return { language: "go", program, args: [] };
  }
  return { language: "go", reason: error === undefined ? stderr.trim() : "no go here" };
}
