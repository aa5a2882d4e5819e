// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A gridworld server in a process of its own. */
export interface ServerProcess extends AsyncDisposable {
  /** Where it listens: `HOST:PORT`. */
  readonly address: string;
}

/**
 * Starts a gridworld server on a free port.
 *
 * @throws Error when it ends before it listens.
 */
export async function startServer(): Promise<ServerProcess> {
  const main = fileURLToPath(import.meta.resolve("@dm-env-rpc/gridworld-server/main"));
  const server = spawn(process.execPath, [main, "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
    // A Ctrl-C is for the demo, which ends the server when the agents have left.
    detached: true,
  });
  const ended = once(server, "exit");
  const stop = (): void => void server.kill("SIGTERM");
  process.once("exit", stop);
  const lines = createInterface(server.stdout);
  const listening = once(lines, "line").then(([line]) => /^listening on http:\/\/(.+)$/.exec(line));
  const address = (await Promise.race([listening, ended.then(() => null)]))?.[1];
  if (address === undefined) throw new Error("the gridworld server ended before it listened");
  return {
    address,
    async [Symbol.asyncDispose]() {
      stop();
      await ended;
      process.off("exit", stop);
    },
  };
}
