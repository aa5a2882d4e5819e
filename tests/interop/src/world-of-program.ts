// SPDX-License-Identifier: Apache-2.0
import { registerHooks } from "node:module";
import type { WorldDefinition } from "@dm-env-rpc/server";

/** Returns a world of a program that serves and plays it in the same file: what follows the world does not run. */
export async function worldOfProgram(program: URL, name: string): Promise<WorldDefinition> {
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (url !== program.href) {
        return loaded;
      }
      const source = String(loaded.source);
      const served = source.search(/^.*\bawait serve\(/m);
      return { ...loaded, source: `${source.slice(0, served)}export { ${name} };\n` };
    },
  });
  try {
    const module: Readonly<Record<string, WorldDefinition>> = await import(program.href);
    const world = module[name];
    if (world === undefined) {
      throw new Error(`no world ${name} in ${program.href}`);
    }
    return world;
  } finally {
    hooks.deregister();
  }
}
