// SPDX-License-Identifier: Apache-2.0
import { parseAddress } from "@dm-env-rpc/transport";
import type { ServerRecord } from "../model/model.ts";
import type { Replica } from "../replica/replica.ts";

/** Registered servers by the canonical form of their address. */
export class ServerAddresses {
  readonly #ids = new Map<string, Set<string>>();

  constructor(replica: Replica) {
    for (const { value } of replica.table("server").values()) {
      this.#add(value);
    }
    replica.onChange((change) => {
      if (change.kind !== "server" || change.before?.address === change.after?.address) {
        return;
      }
      if (change.before !== undefined) {
        this.#remove(change.before);
      }
      if (change.after !== undefined) {
        this.#add(change.after);
      }
    });
  }

  /** Returns the ids of the servers at an address. */
  at(address: string): readonly string[] {
    return [...(this.#ids.get(canonical(address)) ?? [])];
  }

  #add({ id, address }: ServerRecord): void {
    const url = canonical(address);
    const ids = this.#ids.get(url);
    if (ids === undefined) {
      this.#ids.set(url, new Set([id]));
    } else {
      ids.add(id);
    }
  }

  #remove({ id, address }: ServerRecord): void {
    const url = canonical(address);
    const ids = this.#ids.get(url);
    ids?.delete(id);
    if (ids?.size === 0) {
      this.#ids.delete(url);
    }
  }
}

/** Returns the canonical form of an address. */
function canonical(address: string): string {
  return parseAddress(address).url;
}
