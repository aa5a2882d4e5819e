// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { Connection, Environment, JoinOptions } from "../environment/environment.ts";
import { connected, type Script, type ScriptedServer } from "./scripted-server.ts";

/** An environment with its connection and server. */
export interface Joined {
  readonly connection: Connection;
  readonly server: ScriptedServer;
  readonly environment: Environment;
}

/** Connects to a scripted server and joins its world. */
export async function joined(script: Script = {}, options: JoinOptions = {}): Promise<Joined> {
  const { connection, server } = await connected(script);
  return { connection, server, environment: await connection.join("world", options) };
}

/** Returns the StepRequests among requests. */
export function steps(requests: readonly ProcessRequest[]): StepRequest[] {
  return requests.flatMap((request) => (request.case === "step" ? [request.value] : []));
}

/** Returns the settings of a ResetRequest. */
export function settingsOf(request: ProcessRequest | undefined): object {
  return request?.case === "reset" ? request.value.settings : {};
}
