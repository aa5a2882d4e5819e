// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Fault } from "./faults.ts";
import type { MeadowClock } from "./meadow-clocks.ts";

const serverPackage = fileURLToPath(new URL("../../server/", import.meta.url));
const program = fileURLToPath(new URL("./serve-meadow.ts", import.meta.url));

/**
 * Serves meadows with a faulty copy of the server in a separate process.
 *
 * @throws Error if the text that the fault replaces does not occur exactly once in the sources.
 */
export async function serveWithFault(
  fault?: Fault,
  clock: MeadowClock = fault?.clock ?? "lockstep",
): Promise<{ readonly address: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "faulty-server-"));
  let child: ChildProcess | undefined;
  const dispose = async (): Promise<void> => {
    if (child?.exitCode === null && child.kill()) {
      await once(child, "close");
    }
    await rm(folder, { recursive: true });
  };
  try {
    await copySources(folder);
    if (fault !== undefined) {
      await plant(fault, join(folder, "src"));
    }
    child = spawn(process.execPath, [program, join(folder, "src/index.ts"), clock], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const [address] = await Promise.race([
      once(lines, "line"),
      once(lines, "close").then(() => {
        throw new Error("the copy of the server ended before it printed its address");
      }),
    ]);
    return { address, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function copySources(folder: string): Promise<void> {
  const filter = (path: string): boolean => !path.endsWith(".test.ts");
  await cp(join(serverPackage, "src"), join(folder, "src"), { recursive: true, filter });
  await cp(join(serverPackage, "package.json"), join(folder, "package.json"));
  await symlink(join(serverPackage, "node_modules"), join(folder, "node_modules"));
}

async function plant({ replace, by }: Fault, sources: string): Promise<void> {
  const words = replace.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const wanted = new RegExp(words.join("\\s+"), "g");
  const found: { file: string; text: string }[] = [];
  for (const name of await readdir(sources, { recursive: true })) {
    if (!name.endsWith(".ts")) {
      continue;
    }
    const file = join(sources, name);
    const text = await readFile(file, "utf8");
    for (const _ of text.matchAll(wanted)) {
      found.push({ file, text });
    }
  }
  const [place, ...others] = found;
  if (place === undefined || others.length > 0) {
    throw new Error(
      `expected "${replace}" once in the sources of the server, received it ${found.length} times: ` +
        "have the fault replace what stands there now",
    );
  }
  await writeFile(
    place.file,
    place.text.replace(wanted, () => by),
  );
}
