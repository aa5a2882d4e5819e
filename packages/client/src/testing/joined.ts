// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { Connection, Environment, JoinOptions } from "../environment/environment.ts";
import { connected, type Script, type ScriptedServer } from "./scripted-server.ts";

/** An environment, and what it stands on. */
export interface Joined {
  readonly connection: Connection;
  readonly server: ScriptedServer;
  readonly environment: Environment;
}

/** A connection to a scripted server, and an environment of its world. */
export async function joined(script: Script = {}, options: JoinOptions = {}): Promise<Joined> {
  const { connection, server } = await connected(script);
  return { connection, server, environment: await connection.join("world", options) };
}

/** The StepRequests among requests. */
export function steps(requests: readonly ProcessRequest[]): StepRequest[] {
  return requests.flatMap((request) => (request.case === "step" ? [request.value] : []));
}

/** The settings of a ResetRequest. */
export function settingsOf(request: ProcessRequest | undefined): object {
  return request?.case === "reset" ? request.value.settings : {};
}
