// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Program } from "@dm-env-rpc/tests-processes";

/** The folder of the repository. */
const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** The interpreter of the venv that scripts/python.mjs makes. */
const python = `${root}tests/interop/.venv/bin/python`;

/** True if the venv exists; prints a note if it does not. */
export const hasPython: boolean = existsSync(python);
if (!hasPython) {
  process.stderr.write(`skipped: there is no ${python}; npm run interop makes it\n`);
}

/** A server in its own process. */
export interface ServerProcess extends AsyncDisposable {
  readonly address: string;
  close(): Promise<void>;
}

/** Starts a server whose first line of output ends with its address. */
async function startServer(program: string, ...args: string[]): Promise<ServerProcess> {
  const server = new Program(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const address = await server.says(/([\d.]+:\d+)/);
  const close = async (): Promise<void> => {
    server.process.stdin?.end();
    await server.stop();
  };
  return { address, close, [Symbol.asyncDispose]: close };
}

/** Starts the server of python_server.py. */
export const startPythonServer = (...flags: string[]): Promise<ServerProcess> =>
  startServer(python, `${root}tests/interop/python_server.py`, ...flags);

/** Starts a gridworld server on a free port. */
export const startGridworld = (...flags: string[]): Promise<ServerProcess> =>
  startServer(
    process.execPath,
    `${root}apps/gridworld-server/dist/main.js`,
    "--port",
    "0",
    ...flags,
  );
