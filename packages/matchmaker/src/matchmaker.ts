// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import type { ConnectRouter } from "@connectrpc/connect";
import {
  AdminService,
  FrontendService,
  type MatchProfile,
  RegistryService,
} from "@dm-env-rpc/protocol/matchmaker";
import type { ListenOptions, OpenTls } from "@dm-env-rpc/transport";
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import type { Evaluate } from "./director/context.ts";
import { Director } from "./director/director.ts";
import { MatchIndex } from "./director/indexes/match-index.ts";
import { bestFirst } from "./director/matching/proposals.ts";
import type { ServerAllocator } from "./fleet/allocator.ts";
import { networkServers, type WorldServers } from "./fleet/world-servers.ts";
import type { MatchFunctions } from "./functions/profile-function.ts";
import type { Emit, MatchmakerEvent } from "./model/events.ts";
import type { TicketState } from "./model/model.ts";
import { type MatchmakerSettings, settingsFrom } from "./model/settings.ts";
import { checkProfile } from "./profiles/check-profile.ts";
import { profileRecord } from "./profiles/profile.ts";
import { followStore } from "./replica/follow-store.ts";
import { put, Replica } from "./replica/replica.ts";
import { TicketEnds } from "./replica/ticket-ends.ts";
import { adminService } from "./services/admin.ts";
import { auditOperators } from "./services/audit.ts";
import { type AuthorizeCall, type CallerRole, requireCallerRole } from "./services/authorize.ts";
import { frontendService } from "./services/frontend.ts";
import { Admission } from "./services/limits/admission.ts";
import { limitEntries, maxReportBytes } from "./services/limits/request-entries.ts";
import { mapErrorsToConnectCodes } from "./services/map-errors.ts";
import { Positions } from "./services/positions.ts";
import { Presence } from "./services/presence.ts";
import { Refusals } from "./services/refusals.ts";
import { registryService } from "./services/registry.ts";
import { reportedAuthorize } from "./services/reported-authorize.ts";
import { TicketWatch } from "./services/ticket-watch.ts";
import { memoryStore } from "./store/memory-store.ts";
import type { Store } from "./store/store.ts";
import { tokenIssuer } from "./tokens/issuer.ts";
import { SharedKeys, type SigningKey } from "./tokens/keys.ts";

/** Maximum size of an operator's request. Only a profile with large settings is not tiny. */
const maxProfileBytes = 1024 * 1024;

/** Options of a matchmaker. */
export interface MatchmakerOptions {
  /**
   * Store of the state. It is closed with the matchmaker, or if the matchmaker cannot start. Default: the memory of this
   * process.
   */
  readonly store?: Store | undefined;
  /**
   * Profiles to start with. Each start replaces the stored profiles of the same names, so it reverts what operators
   * have changed or deleted in the meantime. Stored profiles with other names stay. If the store loses its data, these
   * profiles are restored.
   */
  readonly profiles?: readonly MatchProfile[] | undefined;
  /** Custom match functions, by the name that profiles use. */
  readonly functions?: MatchFunctions | undefined;
  /**
   * Chooses among the proposals of all profiles. Default: by score, then by priority, then by the
   * age of the oldest ticket. Nothing else runs meanwhile. If a call throws or takes longer than `matchFunctionMs`, the
   * event `step-failed` reports it, and the default choice is used for `cooldownMs`. With each failure in a row, this
   * time doubles, up to 32 times `cooldownMs`.
   */
  readonly evaluate?: Evaluate | undefined;
  /** Times and limits. */
  readonly settings?: Partial<MatchmakerSettings> | undefined;
  /**
   * Key that signs join tokens and the matchmaker's own tokens for servers. Default: a key in the store. If
   * the store loses that key, any matchmaker that has read the key stores it again.
   */
  readonly signingKey?: SigningKey | undefined;
  /** TLS of connections to environment servers with `https://` addresses. */
  readonly tls?: OpenTls | undefined;
  /** Access to environment servers. Default: over the network. */
  readonly servers?: WorldServers | undefined;
  /**
   * Allocates servers at their orchestrator before the servers get worlds. For Agones, use
   * `agonesAllocator` of `@dm-env-rpc/matchmaker/agones`. Default: none, for servers that no orchestrator
   * removes while they are in use.
   */
  readonly allocator?: ServerAllocator | undefined;
  /**
   * Returns the role of each caller. Default: every caller has all roles. Does not apply to the calls that
   * the matchmaker makes to environment servers.
   */
  readonly authorize?: AuthorizeCall | undefined;
  /** Receives events, for logs and metrics. Must not throw. */
  readonly onEvent?: ((event: MatchmakerEvent) => void) | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
  /** Creates unique ids. Default: random UUIDs. */
  readonly newId?: (() => string) | undefined;
}

/** Counts of the state, for gauges. */
export interface MatchmakerCounts {
  readonly tickets: Readonly<Record<TicketState, number>>;
  readonly servers: number;
  readonly worlds: number;
  readonly matches: number;
}

/** A matchmaker without a network. `serveMatchmaker` serves a matchmaker on a port. */
export interface Matchmaker extends AsyncDisposable {
  /** Adds the matchmaker's services to a router. */
  routes(router: ConnectRouter): void;
  /** Limits the concurrent calls of a listener. Pass this function to the listener as `onCall`. */
  readonly admit: NonNullable<ListenOptions["onCall"]>;
  /** Number of calls that were refused, by the name of the limit or the gRPC code. */
  readonly refusals: ReadonlyMap<string, number>;
  /**
   * True while this matchmaker leads, that is, makes the matches. Among the matchmakers that share a
   * store, one leads at a time.
   */
  readonly isLeading: boolean;
  /** True while the store answers. Without the store, no ticket, server or profile can change. */
  readonly isReady: boolean;
  /** Counts the known tickets, servers, worlds and matches. Takes time in proportion to their number. */
  counts(): MatchmakerCounts;
  /** Ticks once, as the loop does by itself. For tests and simulations that control the clock. */
  tick(): Promise<void>;
  /** Resolves when no call to an environment server is in flight. */
  settled(): Promise<void>;
  /** Ends the loop and all watches of tickets, and releases the lead to another matchmaker. Idempotent. */
  close(): Promise<void>;
}

/**
 * Creates a matchmaker and starts its loop.
 *
 * @param options.run If false, no loop starts, and the caller must call `tick`. Default true.
 * @throws DmEnvRpcError INVALID_ARGUMENT for a profile that can never work.
 * @throws StoreError if the store cannot be reached.
 * @throws RangeError if a setting is unknown or out of range.
 */
export async function createMatchmaker(
  options: MatchmakerOptions & { readonly run?: boolean | undefined } = {},
): Promise<Matchmaker> {
  const store = options.store ?? memoryStore(options);
  try {
    return await start(store, options);
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function start(
  store: Store,
  options: MatchmakerOptions & { readonly run?: boolean | undefined },
): Promise<Matchmaker> {
  const { time = systemTime, functions = {}, newId = randomUUID, onEvent } = options;
  const settings = settingsFrom(options.settings);
  const profiles = options.profiles ?? [];
  for (const profile of profiles) {
    checkProfile(profile, functions);
  }
  let isReady = true;
  let isRestoreDue = false;
  const emit: Emit = (event) => {
    if (event.kind === "store-failed") {
      isReady = false;
    }
    onEvent?.(event);
  };
  const replica = new Replica(store, (records) => {
    isRestoreDue = true;
    emit({ kind: "store-lost", records });
  });
  await replica.sync();
  const { signingKey } = options;
  const sharedKeys = signingKey === undefined ? await SharedKeys.open(replica) : undefined;
  const issuer = await tokenIssuer(() => sharedKeys?.all ?? (signingKey ? [signingKey] : []));
  const matchIndex = new MatchIndex(replica, functions, emit);
  const servers =
    options.servers ??
    networkServers({
      tls: options.tls,
      operatorToken: (server) =>
        issuer.operatorToken(
          server,
          replica.now() - 1_000,
          replica.now() + settings.worldCallMs + 60_000,
        ),
    });
  for (const profile of profiles) {
    const record = profileRecord(profile);
    while (
      replica.get("profile", profile.name)?.value.message !== record.message &&
      !(await replica.commit([
        put("profile", profile.name, replica.get("profile", profile.name), record),
      ]))
    ) {}
  }
  /** Called after each update of the replica. */
  const onSynced = async (): Promise<void> => {
    if (isRestoreDue) {
      await sharedKeys?.share();
      for (const profile of profiles) {
        while (
          replica.get("profile", profile.name) === undefined &&
          !(await replica.commit([put("profile", profile.name, undefined, profileRecord(profile))]))
        ) {}
      }
      isRestoreDue = false;
    }
    if (isReady) {
      return;
    }
    isReady = true;
    emit({ kind: "store-recovered" });
  };
  const ends = new TicketEnds(replica, emit);
  const director = new Director({
    store,
    replica,
    matchIndex,
    ends,
    servers,
    allocator: options.allocator,
    issuer,
    settings,
    evaluate: options.evaluate ?? bestFirst,
    time,
    emit,
    newId,
  });
  const watch = new TicketWatch(replica, time, Math.max(1, settings.positionMs));
  const positions = new Positions(replica, matchIndex, settings.positionMs);
  const presence = new Presence(replica, settings, time, emit);
  const admission = new Admission(settings, time);
  const refusals = new Refusals(emit);
  const { authorizeMs } = settings;
  const authorize =
    options.authorize && reportedAuthorize(options.authorize, { authorizeMs, time, emit });
  const ended = new AbortController();
  const running = [followStore(store, replica, time, ended.signal, emit, onSynced)];
  if (options.run !== false) {
    running.push(director.run(ended.signal));
  }

  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    ended.abort();
    watch.close();
    positions.close();
    await Promise.all([...running, presence.close()]);
    director.stop();
    await director.settled();
    matchIndex.close();
    ends.close();
    await servers.close();
    await store.close();
  };
  const close = (): Promise<void> => {
    closing ??= end();
    return closing;
  };
  const shared = { replica, settings, emit, newId };
  return {
    routes(router) {
      const forRole = (readMaxBytes: number, ...roles: CallerRole[]) => ({
        readMaxBytes,
        // Runs before the request is read. Connect decodes a request before its interceptors run.
        requestGate: refusals.gate(admission.gate(requireCallerRole(authorize, roles))),
        interceptors: [
          refusals.interceptor,
          mapErrorsToConnectCodes(emit),
          admission.interceptor,
          auditOperators(emit),
        ],
      });
      const frontend = frontendService({ ...shared, matchIndex, ends, positions }, watch, presence);
      const registry = registryService({ ...shared, servers, issuer });
      const admin = adminService({ ...shared, matchIndex, functions });
      // If a ticket is slightly too large, the error names the limit. A larger request is not decoded at all.
      const maxRequestBytes = 4 * settings.maxTicketBytes;
      router.service(FrontendService, frontend, forRole(maxRequestBytes, "agent", "operator"));
      router.service(RegistryService, registry, {
        ...forRole(maxReportBytes, "server", "operator"),
        acceptCompression: [], // The entries of a request are counted in its bytes.
        binaryOptions: { readUnknownFields: false },
      });
      limitEntries(router, settings, refusals.note);
      router.service(AdminService, admin, forRole(maxProfileBytes, "operator"));
    },
    admit: refusals.of(admission.admit),
    refusals: refusals.byReason,
    get isLeading() {
      return director.isLeading;
    },
    get isReady() {
      return isReady;
    },
    counts: () => count(replica),
    tick: () => director.tick(),
    settled: () => director.settled(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function count(replica: Replica): MatchmakerCounts {
  const tickets: Record<TicketState, number> = {
    waiting: 0,
    matched: 0,
    assigned: 0,
    joined: 0,
    completed: 0,
    cancelled: 0,
    failed: 0,
  };
  for (const { value } of replica.table("ticket").values()) {
    tickets[value.state] += 1;
  }
  return {
    tickets,
    servers: replica.table("server").size,
    worlds: replica.table("world").size,
    matches: replica.table("match").size,
  };
}
