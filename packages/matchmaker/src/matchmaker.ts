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
import { checkProfile } from "./check-profile.ts";
import type { Evaluate } from "./director/context.ts";
import { Director } from "./director/director.ts";
import { MatchIndex } from "./director/match-index.ts";
import { bestFirst } from "./director/proposals.ts";
import type { Emit, MatchmakerEvent } from "./events.ts";
import { followStore } from "./follow-store.ts";
import type { MatchFunctions } from "./functions/profile-function.ts";
import type { TicketState } from "./model.ts";
import { profileRecord } from "./profile.ts";
import { put, Replica } from "./replica.ts";
import { adminService } from "./services/admin.ts";
import { Admission } from "./services/admission.ts";
import { auditOperators } from "./services/audit.ts";
import { type AuthorizeCall, type CallerRole, requireCallerRole } from "./services/authorize.ts";
import { frontendService } from "./services/frontend.ts";
import { mapErrorsToConnectCodes } from "./services/map-errors.ts";
import { Presence } from "./services/presence.ts";
import { registryService } from "./services/registry.ts";
import { TicketWatch } from "./services/ticket-watch.ts";
import { type MatchmakerSettings, settingsFrom } from "./settings.ts";
import { memoryStore } from "./store/memory-store.ts";
import type { Store } from "./store/store.ts";
import { tokenIssuer } from "./tokens/issuer.ts";
import { SharedKeys, type SigningKey } from "./tokens/keys.ts";
import { networkServers, type WorldServers } from "./world-servers.ts";

/** How matches are made. */
export interface MatchmakerOptions {
  /** Where the state is. Default: the memory of this process. It is closed with the matchmaker. */
  readonly store?: Store | undefined;
  /**
   * Profiles that are there from the start; those of the same name are replaced. They are put back when the store
   * has lost its data.
   */
  readonly profiles?: readonly MatchProfile[] | undefined;
  /** Match functions of your own, by the name that profiles call them. */
  readonly functions?: MatchFunctions | undefined;
  /** Chooses among the proposals of all profiles. Default: the highest scores, then the oldest tickets. */
  readonly evaluate?: Evaluate | undefined;
  /** Times and limits. */
  readonly settings?: Partial<MatchmakerSettings> | undefined;
  /** Signs join tokens. Default: one that is kept in the store, and put back by a matchmaker that has it when the store lost it. */
  readonly signingKey?: SigningKey | undefined;
  /** For environment servers with `https://` addresses. */
  readonly tls?: OpenTls | undefined;
  /** How environment servers are reached. Default: over the network. */
  readonly servers?: WorldServers | undefined;
  /**
   * Says what each caller may do. Default: every caller may do everything. The matchmaker itself needs no
   * leave for what it does on environment servers.
   */
  readonly authorize?: AuthorizeCall | undefined;
  /** Told what happens, for logs and metrics. Must not throw. */
  readonly onEvent?: ((event: MatchmakerEvent) => void) | undefined;
  /** Default: the machine's time. */
  readonly time?: TimeSource | undefined;
  /** Makes ids that nothing else has. Default: random UUIDs. */
  readonly newId?: (() => string) | undefined;
}

/** How much of what there is, for gauges. */
export interface MatchmakerCounts {
  readonly tickets: Readonly<Record<TicketState, number>>;
  readonly servers: number;
  readonly worlds: number;
  readonly matches: number;
}

/** A matchmaker without a network. `serveMatchmaker` puts one on a port. */
export interface Matchmaker extends AsyncDisposable {
  /** Adds its services to a router. */
  routes(router: ConnectRouter): void;
  /** Shares a listener's calls among its callers: give it to the listener as `onCall`. */
  readonly admit: NonNullable<ListenOptions["onCall"]>;
  /** True while this one makes the matches: of those that share a store, one does while the store answers. */
  readonly isLeading: boolean;
  /** True while the store answers. Without it no ticket, server or profile can be changed. */
  readonly isReady: boolean;
  /** Counts what is known here; takes time in proportion to it. */
  counts(): MatchmakerCounts;
  /** Looks for work once, as the loop does by itself: for tests and simulations with a time of their own. */
  tick(): Promise<void>;
  /** Resolves when no call to an environment server is under way. */
  settled(): Promise<void>;
  /** Ends the loop and every watch, and lets another matchmaker lead. Idempotent. */
  close(): Promise<void>;
}

/**
 * Makes a matchmaker and starts its loop.
 *
 * @param options.run Whether the loop runs by itself; false: `tick` is called from outside. Default true.
 * @throws DmEnvRpcError INVALID_ARGUMENT for a profile that can never work.
 * @throws StoreError when the store cannot be reached.
 * @throws RangeError for a setting that is none.
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
  /** Called whenever the store has answered. */
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
  const director = new Director({
    store,
    replica,
    matchIndex,
    servers,
    issuer,
    settings,
    evaluate: options.evaluate ?? bestFirst,
    time,
    emit,
    newId,
  });
  const watch = new TicketWatch(replica);
  const presence = new Presence(replica, settings, time, emit);
  const admission = new Admission(settings, time);
  const ended = new AbortController();
  const running = [followStore(store, replica, time, ended.signal, emit, onSynced)];
  if (options.run !== false) {
    running.push(director.run(ended.signal));
  }

  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    ended.abort();
    watch.close();
    await Promise.all([...running, presence.close()]);
    director.stop();
    await director.settled();
    matchIndex.close();
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
      const forRole = (...roles: CallerRole[]) => ({
        interceptors: [
          mapErrorsToConnectCodes,
          requireCallerRole(options.authorize, roles),
          admission.interceptor,
          auditOperators(emit),
        ],
      });
      const frontend = frontendService({ ...shared, matchIndex }, watch, presence);
      const registry = registryService({ ...shared, servers, issuer });
      const admin = adminService({ ...shared, matchIndex, functions });
      // A ticket that is a little too large is told so in our own words; what is larger is not even read.
      const readMaxBytes = 4 * settings.maxTicketBytes;
      router.service(FrontendService, frontend, { ...forRole("agent"), readMaxBytes });
      router.service(RegistryService, registry, forRole("server", "operator"));
      router.service(AdminService, admin, forRole("operator"));
    },
    admit: admission.admit,
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
