// SPDX-License-Identifier: Apache-2.0
import { Counts } from "@dm-env-rpc/transport/internal";
import type { Report, ReportedWorld, ServerRecord } from "../../model/model.ts";
import type { Replica } from "../../replica/replica.ts";

/** Measured bytes of a server and its report, without names and worlds. */
const serverOverheadBytes = 600;
/** Measured bytes of a reported world without its names and tickets. */
const worldOverheadBytes = 200;
/** Measured bytes of a text without its characters, with its place in an array. */
const textOverheadBytes = 24;

/** A server and its report, as the budget counts them. */
interface Entry {
  readonly owner: string | undefined;
  readonly serverBytes: number;
  readonly reportBytes: number;
}

/** Resources that a caller's servers use. */
interface Account {
  bytes: number;
  /** Ids of the servers, each with its number of entries and reservations. */
  readonly ids: Map<string, number>;
}

/**
 * Memory of the servers and their reports in this process, in total and by caller, including calls that are being
 * processed.
 */
export class ServerBudget {
  readonly #replica: Replica;
  /** Registrations that are being processed, by server. */
  readonly #registrations = new Counts<string>();
  #bytes = 0;
  readonly #entries = new Map<string, Entry>();
  readonly #accounts = new Map<string, Account>();

  constructor(replica: Replica) {
    this.#replica = replica;
    for (const { value } of replica.table("server").values()) {
      this.#setServer(value.id, value);
    }
    for (const { value } of replica.table("report").values()) {
      this.#setReport(value.serverId, value);
    }
    replica.onChange(({ kind, id, after }) => {
      if (kind === "server") {
        this.#setServer(id, after);
      } else if (kind === "report") {
        this.#setReport(id, after);
      }
    });
  }

  /** Number of servers except one, including those whose registrations are being processed. */
  serversBeside(serverId: string): number {
    const servers = this.#replica.table("server");
    let count = servers.has(serverId) ? servers.size - 1 : servers.size;
    for (const id of this.#registrations.keys()) {
      if (id !== serverId && !servers.has(id)) {
        count += 1;
      }
    }
    return count;
  }

  /**
   * Counts a registration that is being processed.
   *
   * @returns A function that stops counting it. Idempotent.
   */
  register(serverId: string): () => void {
    return this.#registrations.add(serverId);
  }

  /** Estimated memory of all servers except one, in bytes. */
  bytesBeside(serverId: string): number {
    return this.#bytes - bytesOf(this.#entries.get(serverId));
  }

  /** Resources of a caller's servers except one. */
  ofCallerBeside(
    owner: string,
    serverId: string,
  ): { readonly servers: number; readonly bytes: number } {
    const { bytes, ids } = this.#accounts.get(owner) ?? { bytes: 0, ids: new Map() };
    const entry = this.#entries.get(serverId);
    return {
      servers: ids.size - (ids.has(serverId) ? 1 : 0),
      bytes: bytes - (entry?.owner === owner ? bytesOf(entry) : 0),
    };
  }

  /**
   * Counts the data of a call that is being processed.
   *
   * @param owner The caller whose limits the data uses; undefined if it has none.
   * @returns A function that stops counting the data; call it exactly once.
   */
  reserve(owner: string | undefined, serverId: string, bytes: number): () => void {
    this.#count(owner, serverId, bytes, 1);
    return () => this.#count(owner, serverId, bytes, -1);
  }

  #setServer(id: string, server: ServerRecord | undefined): void {
    const { reportBytes = 0 } = this.#entries.get(id) ?? {};
    const bytes = server === undefined ? 0 : serverBytes(server);
    this.#set(id, { owner: server?.owner, serverBytes: bytes, reportBytes });
  }

  #setReport(id: string, report: Report | undefined): void {
    const { owner, serverBytes = 0 } = this.#entries.get(id) ?? {};
    const bytes = report === undefined ? 0 : worldsBytes(report.worlds);
    this.#set(id, { owner, serverBytes, reportBytes: bytes });
  }

  #set(id: string, entry: Entry): void {
    const before = this.#entries.get(id);
    if (before !== undefined) {
      this.#entries.delete(id);
      this.#count(before.owner, id, bytesOf(before), -1);
    }
    if (bytesOf(entry) > 0) {
      this.#entries.set(id, entry);
      this.#count(entry.owner, id, bytesOf(entry), 1);
    }
  }

  #count(owner: string | undefined, serverId: string, bytes: number, sign: 1 | -1): void {
    this.#bytes += sign * bytes;
    if (owner === undefined) {
      return;
    }
    const account = this.#accounts.get(owner) ?? { bytes: 0, ids: new Map<string, number>() };
    account.bytes += sign * bytes;
    const uses = (account.ids.get(serverId) ?? 0) + sign;
    if (uses > 0) {
      account.ids.set(serverId, uses);
    } else {
      account.ids.delete(serverId);
    }
    if (account.ids.size > 0) {
      this.#accounts.set(owner, account);
    } else {
      this.#accounts.delete(owner);
    }
  }
}

function bytesOf(entry: Entry | undefined): number {
  return entry === undefined ? 0 : entry.serverBytes + entry.reportBytes;
}

/** Estimates the memory of a server without its report: two bytes for each character of text. */
export function serverBytes({
  id,
  address,
  worldTypes,
  region = "",
  labels = {},
}: Pick<ServerRecord, "id" | "address" | "worldTypes" | "region" | "labels">): number {
  const texts = [id, address, region, ...Object.entries(labels).flat()];
  return serverOverheadBytes + textsBytes(texts) + textsBytes(worldTypes);
}

/** Estimates the memory of the worlds of a report: two bytes for each character of text. */
export function worldsBytes(worlds: readonly ReportedWorld[]): number {
  let bytes = 0;
  for (const { name, type, tickets, left } of worlds) {
    bytes += worldOverheadBytes + 2 * (name.length + type.length);
    bytes += textsBytes(tickets) + textsBytes(left);
  }
  return bytes;
}

function textsBytes(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + textOverheadBytes + 2 * length, 0);
}
