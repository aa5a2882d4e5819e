// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { bin, deploy } from "../paths.ts";

/** The parts of a Compose service that the tests read. */
export interface Service {
  readonly image: string;
  readonly build?: { readonly target: string; readonly dockerfile: string };
  readonly command?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_grace_period?: string;
  readonly ports?: readonly unknown[];
  readonly read_only?: boolean;
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly secrets?: readonly { readonly source: string; readonly target: string }[];
}

/** A Compose project. */
export interface Project {
  readonly services: Readonly<Record<string, Service>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

/** Loads the project as `docker compose config` does: its schema, anchors, defaults and paths. */
export async function loadProject(): Promise<Project> {
  const folder = join(deploy, "compose");
  return JSON.parse(
    await run(join(bin, "cmd"), ["--format", "json", "compose.yaml"], { cwd: folder }),
  );
}

/** Returns the names of the services, each after its dependencies. */
export function inOrder(services: Project["services"]): readonly string[] {
  const order: string[] = [];
  const visit = (name: string, path: readonly string[]): void => {
    const service = services[name];
    if (service === undefined) {
      throw new Error(`${path.at(-1)} depends on ${name}, which is not a service`);
    }
    if (path.includes(name)) {
      throw new Error(`${name} depends on itself`);
    }
    if (order.includes(name)) {
      return;
    }
    for (const other of Object.keys(service.depends_on ?? {})) {
      visit(other, [...path, name]);
    }
    order.push(name);
  };
  for (const name of Object.keys(services)) {
    visit(name, []);
  }
  return order;
}
