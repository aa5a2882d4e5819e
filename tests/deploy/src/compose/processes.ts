// SPDX-License-Identifier: Apache-2.0

import { join } from "node:path";
import { freePort, Program } from "@dm-env-rpc/tests-processes";
import { root } from "../paths.ts";
import type { Project, Service } from "./project.ts";

/** The services of a project as local processes, each on a free port instead of its own. */
export class Processes implements AsyncDisposable {
  readonly #project: Project;
  readonly #scratch: string;
  readonly #ports = new Map<string, number>();
  readonly #programs: Program[] = [];

  constructor(project: Project, scratch: string) {
    this.#project = project;
    this.#scratch = scratch;
  }

  /** Returns the local address of a service such as `gridworld-1:8980`. */
  async #placeOf(name: string, port: string): Promise<string> {
    const key = `${name}:${port}`;
    const free = this.#ports.get(key) ?? (await freePort());
    this.#ports.set(key, free);
    return `127.0.0.1:${free}`;
  }

  async #local(name: string, service: Service, word: string): Promise<string> {
    const [, before = "", port] = /^(--(?:metrics-)?port=)(\d+)$/.exec(word) ?? [];
    if (port !== undefined) {
      const place = await this.#placeOf(name, port);
      return before + place.split(":")[1];
    }
    const [, range = "", first] = /^(--program-ports=)(\d+)-\d+$/.exec(word) ?? [];
    if (first !== undefined) {
      const [, free] = (await this.#placeOf(name, first)).split(":");
      return `${range}${free}-${free}`;
    }
    const { configs, secrets } = this.#project;
    for (const [given, files] of [
      [service.configs, configs],
      [service.secrets, secrets],
    ] as const) {
      for (const { source, target } of given ?? []) {
        if (word.endsWith(`=${target}`)) {
          return word.replace(target, files[source]?.file ?? "");
        }
      }
    }
    const [, others = "", host = "", at = ""] = /^(.*?)([\w-]+):(\d+)$/.exec(word) ?? [];
    if (!(host in this.#project.services)) {
      return word;
    }
    return others + (await this.#placeOf(host, at));
  }

  async start(name: string): Promise<Program> {
    const service = this.#project.services[name];
    if (service === undefined) {
      throw new Error(`there is no service ${name}`);
    }
    const words: string[] = [];
    for (const word of service.command ?? []) {
      words.push(await this.#local(name, service, word));
    }
    const program = await this.#run(service, words);
    this.#programs.push(program);
    return program;
  }

  async #run(service: Service, words: readonly string[]): Promise<Program> {
    if (service.build !== undefined) {
      const main = join(root, "apps", service.build.target, "dist/main.js");
      return new Program(process.execPath, [main, ...words]);
    }
    const [command = "", ...args] = words;
    const port = (await this.#placeOf("redis", "6379")).split(":")[1] ?? "";
    return new Program(command, [...args, "--port", port, "--dir", this.#scratch]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of this.#programs.reverse()) {
      await program[Symbol.asyncDispose]();
    }
  }
}
