// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** The interpreter of the venv that scripts/python.mjs makes. */
const python = `${root}tests/interop/.venv/bin/python`;

/** Whether that is there; says so where it is not. */
export const hasPython: boolean = existsSync(python);
if (!hasPython) {
  process.stderr.write(`skipped: there is no ${python}; npm run interop makes it\n`);
}

/** A server as a process of its own. */
export interface ServerProcess extends AsyncDisposable {
  readonly address: string;
  close(): Promise<void>;
}

/** Starts a server whose first line of output ends with its address. */
async function startServer(program: string, ...args: string[]): Promise<ServerProcess> {
  const child: ChildProcess = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "close");
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const line = await new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    lines.once("close", () => reject(new Error(`${program} ended before it said its address`)));
    child.once("error", reject);
  });
  const close = async (): Promise<void> => {
    child.stdin?.end();
    child.kill("SIGTERM");
    await ended;
  };
  return {
    address: line.replace(/^.*?([\d.]+:\d+).*$/, "$1"),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The server of python_server.py. */
export const startPythonServer = (): Promise<ServerProcess> =>
  startServer(python, `${root}tests/interop/python_server.py`);

/** A gridworld server on a free port. */
export const startGridworld = (...flags: string[]): Promise<ServerProcess> =>
  startServer(
    process.execPath,
    `${root}apps/gridworld-server/dist/main.js`,
    "--port",
    "0",
    ...flags,
  );
