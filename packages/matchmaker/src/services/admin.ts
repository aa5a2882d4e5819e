// SPDX-License-Identifier: Apache-2.0

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import {
  type AdminService,
  TicketState,
  type WatchResponse,
  WatchResponse_Kind,
  WatchResponseSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { MatchIndex } from "../director/indexes/match-index.ts";
import { invalid, notFound } from "../errors/errors.ts";
import type { MatchFunctions } from "../functions/profile-function.ts";
import type { Kind, Records } from "../model/model.ts";
import { checkProfile } from "../profiles/check-profile.ts";
import { profileMessage, profileRecord } from "../profiles/profile.ts";
import { put, type ReplicaChange, remove } from "../replica/replica.ts";
import type { ServiceContext } from "./frontend.ts";
import {
  backfillMessage,
  matchMessage,
  serverMessage,
  ticketMessage,
  ticketStates,
} from "./messages.ts";

/** Dependencies of the admin service. */
export interface AdminContext extends ServiceContext {
  readonly matchIndex: MatchIndex;
  readonly functions: MatchFunctions;
}

const defaultPageSize = 100;
const maxPageSize = 1_000;

/**
 * The first of many ids, in order. It keeps at most twice as many ids as requested, so a page of a long table needs no sort
 * of the whole table.
 */
class FirstIds {
  readonly #count: number;
  #ids: string[] = [];
  /** Ids from this one on are not among the first. */
  #end: string | undefined;

  constructor(count: number) {
    this.#count = count;
  }

  /** Returns false if enough smaller ids were added. */
  mayAdd(id: string): boolean {
    return this.#end === undefined || id < this.#end;
  }

  add(id: string): void {
    this.#ids.push(id);
    if (this.#ids.length >= 2 * this.#count) {
      this.#ids = this.ids;
      this.#end = this.#ids.at(-1);
    }
  }

  get ids(): string[] {
    return this.#ids.sort().slice(0, this.#count);
  }
}

/** The service for operators. */
export function adminService(context: AdminContext): ServiceImpl<typeof AdminService> {
  const { replica, matchIndex } = context;
  const page = <K extends Kind, T>(
    kind: K,
    { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
    make: (record: Records[K]) => T,
    accepts: (record: Records[K]) => boolean = () => true,
  ): { readonly items: T[]; readonly nextPageToken: string } => {
    if (pageSize > maxPageSize) {
      throw invalid("page_size", `at most ${maxPageSize}`, String(pageSize));
    }
    const size = pageSize === 0 ? defaultPageSize : pageSize;
    const table = replica.table(kind);
    const page = new FirstIds(size + 1);
    for (const [id, { value }] of table) {
      if (id > pageToken && page.mayAdd(id) && accepts(value)) {
        page.add(id);
      }
    }
    const ids = page.ids;
    const items = ids.slice(0, size).flatMap((id) => {
      const record = table.get(id);
      return record === undefined ? [] : [make(record.value)];
    });
    return { items, nextPageToken: ids.length > size ? (ids[size - 1] ?? "") : "" };
  };
  return {
    async putProfile({ profile }) {
      if (profile === undefined) {
        throw invalid("profile", "a profile", "none");
      }
      checkProfile(profile, context.functions);
      await putProfile(context, profileRecord(profile));
      return {};
    },
    getProfile({ name }) {
      const record = replica.get("profile", name);
      if (record === undefined) {
        throw notFound("profile", name, "ListProfiles lists the profiles");
      }
      return { profile: profileMessage(record.value) };
    },
    async deleteProfile({ name }) {
      for (;;) {
        const record = replica.get("profile", name);
        if (record === undefined) {
          throw notFound("profile", name, "ListProfiles lists the profiles");
        }
        if (await replica.commit([remove("profile", name, record)])) {
          return {};
        }
      }
    },
    listProfiles(request) {
      const { items, nextPageToken } = page("profile", request, profileMessage);
      return { profiles: items, nextPageToken };
    },
    listServers(request) {
      const { items, nextPageToken } = page("server", request, (server) =>
        serverMessage(replica, server, matchIndex.loadOf(server.id)),
      );
      return { servers: items, nextPageToken };
    },
    listMatches(request) {
      const { items, nextPageToken } = page("match", request, (match) =>
        matchMessage(replica, match),
      );
      return { matches: items, nextPageToken };
    },
    listTickets(request) {
      const { state } = request;
      const { items, nextPageToken } = page(
        "ticket",
        request,
        (ticket) => ticketMessage(ticket),
        (ticket) => state === TicketState.UNSPECIFIED || ticketStates[ticket.state] === state,
      );
      return { tickets: items, nextPageToken };
    },
    listBackfills(request) {
      const { items, nextPageToken } = page(
        "match",
        request,
        backfillMessage,
        ({ vacancies, profile }) =>
          vacancies.length > 0 && matchIndex.profiles.get(profile)?.backfill === true,
      );
      return { backfills: items, nextPageToken };
    },
    watch: (_request, { signal }) => watch(context, signal),
  };
}

async function putProfile(
  { replica, settings }: AdminContext,
  record: Records["profile"],
): Promise<void> {
  for (;;) {
    const known = replica.get("profile", record.name);
    if (known === undefined && replica.table("profile").size >= settings.maxProfiles) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many profiles: expected at most ${settings.maxProfiles}; delete one first (limit: maxProfiles)`,
      );
    }
    if (await replica.commit([put("profile", record.name, known, record)])) {
      return;
    }
  }
}

const watched = ["profile", "server", "match", "ticket"] as const;

/**
 * Yields the current profiles, servers, matches and tickets, then their changes. If a record changes
 * faster than the caller reads, only its latest state is yielded.
 */
async function* watch(
  context: AdminContext,
  signal: AbortSignal,
): AsyncGenerator<WatchResponse, void, undefined> {
  const { replica, settings } = context;
  /** Changed records that have not been sent. */
  const due = new Map<string, { readonly kind: (typeof watched)[number]; readonly id: string }>();
  let wake = (): void => {};
  let isBehind = false;
  const note = (kind: Kind, id: string): void => {
    if (kind === "report") {
      note("server", id);
    }
    if (kind !== "profile" && kind !== "server" && kind !== "match" && kind !== "ticket") {
      return;
    }
    due.set(`${kind}/${id}`, { kind, id });
    wake();
  };
  const onAbort = (): void => wake();
  signal.addEventListener("abort", onAbort, { once: true });
  const stop = replica.onChange(({ kind, id }: ReplicaChange) => {
    if (due.size < settings.maxWatchQueue) {
      note(kind, id);
    } else {
      isBehind = true;
      wake();
    }
  });
  try {
    for (const kind of watched) {
      for (const id of [...replica.table(kind).keys()]) {
        if (signal.aborted) {
          return;
        }
        due.delete(`${kind}/${id}`);
        const response = changeMessage(context, kind, id);
        if (response !== undefined) {
          yield response;
        }
      }
    }
    while (!signal.aborted) {
      if (isBehind) {
        throw new ConnectError(
          `too many unread changes: expected at most ${settings.maxWatchQueue}; watch again, and read faster (limit: maxWatchQueue)`,
          Code.ResourceExhausted,
        );
      }
      const [next] = due;
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      due.delete(next[0]);
      yield changeMessage(context, next[1].kind, next[1].id) ??
        removedMessage(next[1].kind, next[1].id);
    }
  } finally {
    stop();
    signal.removeEventListener("abort", onAbort);
  }
}

function changeMessage(
  { replica, matchIndex }: AdminContext,
  kind: (typeof watched)[number],
  id: string,
): WatchResponse | undefined {
  const respond = (
    change: NonNullable<MessageInitShape<typeof WatchResponseSchema>["change"]>,
  ): WatchResponse => create(WatchResponseSchema, { change });
  switch (kind) {
    case "profile": {
      const record = replica.get(kind, id)?.value;
      return record && respond({ case: kind, value: profileMessage(record) });
    }
    case "server": {
      const record = replica.get(kind, id)?.value;
      return (
        record &&
        respond({ case: kind, value: serverMessage(replica, record, matchIndex.loadOf(id)) })
      );
    }
    case "match": {
      const record = replica.get(kind, id)?.value;
      return record && respond({ case: kind, value: matchMessage(replica, record) });
    }
    case "ticket": {
      const record = replica.get(kind, id)?.value;
      return record && respond({ case: kind, value: ticketMessage(record) });
    }
  }
}

const removedKinds = {
  profile: WatchResponse_Kind.PROFILE,
  server: WatchResponse_Kind.SERVER,
  match: WatchResponse_Kind.MATCH,
  ticket: WatchResponse_Kind.TICKET,
} as const;

function removedMessage(kind: (typeof watched)[number], id: string): WatchResponse {
  return create(WatchResponseSchema, {
    change: { case: "removed", value: { kind: removedKinds[kind], id } },
  });
}
