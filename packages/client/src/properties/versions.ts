// SPDX-License-Identifier: Apache-2.0
import type { Connection } from "../environment/environment.ts";
import { isRefusal } from "../stream/faults.ts";
import type { WaitOptions } from "../stream/wait.ts";
import { properties } from "./properties.ts";
import { software } from "./software.ts";

/** A name and a version. */
export interface Version {
  readonly name: string;
  readonly version: string;
}

/** Software versions, to store with results (behaviour 59). */
export interface Versions {
  readonly client: Version;
  /** Undefined if the server does not report it. */
  readonly server: Version | undefined;
  /** Kind and version of the joined world; undefined if no world is joined or it does not report them. */
  readonly world: Version | undefined;
}

/**
 * Reads the versions of the server and of the world from the properties `server.name`,
 * `server.version`, `world.type` and `world.version`, and adds the version of this client.
 *
 * @throws DmEnvRpcError if the connection is lost or the wait ends early.
 */
export async function versions(
  connection: Pick<Connection, "send">,
  options?: WaitOptions,
): Promise<Versions> {
  const remote = properties(connection);
  const read = async (key: string): Promise<string | undefined> => {
    try {
      return String(await remote.get(key, options));
    } catch (error) {
      if (isRefusal(error)) {
        return undefined;
      }
      throw error;
    }
  };
  const both = async (nameKey: string, versionKey: string): Promise<Version | undefined> => {
    const [name, version] = [await read(nameKey), await read(versionKey)];
    return name === undefined ? undefined : { name, version: version ?? "" };
  };
  return {
    client: software,
    server: await both("server.name", "server.version"),
    world: await both("world.type", "world.version"),
  };
}
