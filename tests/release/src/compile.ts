// SPDX-License-Identifier: Apache-2.0
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { run } from "./run.ts";

/** The supported versions of TypeScript: the workspace's and the previous one. */
const compilers = ["typescript", "typescript-5"].map((name) => {
  const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  return join(dirname(manifest), "bin/tsc");
});

/** Options of `compile`. */
export interface CompileOptions {
  /** Includes Node's types and TypeScript's default libraries. */
  readonly node: boolean;
  /** Checks the declarations of dependencies as well. */
  readonly checkDependencies: boolean;
}

/**
 * Compiles the .ts, .mts and .cts files of a project into its dist, strictly, with each compiler.
 *
 * @throws Error with the compiler's output.
 */
export async function compile(
  folder: string,
  { node, checkDependencies }: CompileOptions,
): Promise<void> {
  const config = {
    compilerOptions: {
      target: "es2023",
      ...(node ? {} : { lib: ["es2023", "esnext.disposable"] }),
      module: "nodenext",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
      types: node ? ["node"] : [],
      skipLibCheck: !checkDependencies,
      rootDir: "src",
      outDir: "dist",
    },
    include: ["src"],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  for (const compiler of compilers) {
    await run(process.execPath, [compiler, "--project", folder], { cwd: folder });
  }
}
