// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, pause, shorten, toError } from "@dm-env-rpc/transport/internal";
import { faultOf, isGone, isUnreachable } from "../../fleet/world-servers.ts";
import type { Match, Reason, ServerRecord, Ticket, World } from "../../model/model.ts";
import { maxNameLength } from "../../profiles/names.ts";
import type { Profile } from "../../profiles/profile.ts";
import { put } from "../../replica/replica.ts";
import { type Change, isStoreError } from "../../store/store.ts";
import { change, type DirectorContext } from "../context.ts";
import { announce, assign, reserve, type Seats } from "../matching/assignments.ts";
import { ended, profileOfWorld, requeued, ticketsOf, worldEnded } from "../outcomes.ts";
import { startCreateSpan } from "../spans.ts";
import { serverKey, typeKey, type WorldTasks } from "./world-tasks.ts";

/** Number of create calls that are started before other work of the process may run. */
const burst = 25;
/** Name of the task that starts creates. */
const starting = "start creates";

/** Maximum number of characters that a ticket contains of a world's error. */
const maxReason = 500;

/** Delay between attempts to commit a created world while the store is unavailable. */
const storeRetryMs = 200;

/**
 * Starts the creates that are due: for placed matches, including matches that another leader placed, and for
 * spare worlds. Many creates are started in bursts, and ticks may run between two bursts. When a create
 * succeeds, the next create on the same server starts immediately.
 */
export function startCreates(context: DirectorContext, tasks: WorldTasks): void {
  if (!tasks.isRunning(starting)) {
    tasks.start(starting, () => startInBursts(context, tasks));
  }
}

async function startInBursts(context: DirectorContext, tasks: WorldTasks): Promise<void> {
  let started = 0;
  // The iteration also visits worlds that ticks place between two bursts.
  for (const [serverId, worlds] of context.matchIndex.creatingOn) {
    for (const world of worlds.values()) {
      if (tasks.creatingOn(serverId) >= context.settings.maxCreatesPerServer) {
        break;
      }
      if (!startIfIdle(context, tasks, world)) {
        continue;
      }
      started += 1;
      if (started < burst) {
        continue;
      }
      started = 0;
      await setImmediate();
      if (context.lease() === undefined) {
        return;
      }
    }
  }
}

/** Starts the create of a world unless it is already in progress. Returns true if the create was started. */
function startIfIdle(context: DirectorContext, tasks: WorldTasks, world: World): boolean {
  const { id, serverId } = world;
  if (tasks.isRunning(id)) {
    return false;
  }
  tasks.startCreate(
    id,
    serverId,
    () => createWorld(context, tasks, world),
    () => {
      // After a failure, the next tick continues.
      if (context.replica.get("world", id)?.value.state === "open") {
        startNext(context, tasks, serverId);
      }
    },
  );
  return true;
}

/** Starts the first create that is due on a server, if this matchmaker still leads. */
function startNext(context: DirectorContext, tasks: WorldTasks, serverId: string): void {
  if (context.lease() === undefined) {
    return;
  }
  for (const world of context.matchIndex.creatingOn.get(serverId).values()) {
    if (startIfIdle(context, tasks, world)) {
      return;
    }
  }
}

async function createWorld(
  context: DirectorContext,
  tasks: WorldTasks,
  world: World,
): Promise<void> {
  const { replica, matchIndex, servers, settings, emit } = context;
  const server = replica.get("server", world.serverId)?.value;
  const profile = profileOfWorld(matchIndex, replica, world);
  const mayCreate = server?.state === "serving" || server?.state === "draining";
  if (profile === undefined || !mayCreate) {
    const what = profile === undefined ? "the profile was deleted" : "the server was lost";
    await unplace(context, world.id, (ticket) =>
      requeued(ticket, replica.now(), settings.awayMs, {
        code: "UNAVAILABLE",
        message: `${what} before the world was created`,
      }),
    );
    return;
  }
  const needsAllocation = context.allocator !== undefined && server.allocated === undefined;
  if (needsAllocation && !(await isAllocated(context, world, server))) {
    return;
  }
  const match = world.matchId === undefined ? undefined : replica.get("match", world.matchId);
  const span = startCreateSpan(server, match?.value);
  let name: string;
  try {
    const type = server.worldTypes.length > 1 ? world.type : undefined;
    const { worldCallMs } = settings;
    name = await servers.create(server, profile.settings, type, worldCallMs, span.metadata);
    if (name.length > maxNameLength) {
      // A report with this name would be refused, so the world could not be found in reports.
      await destroyUnused(context, server, name);
      throw new DmEnvRpcError(
        "ABORTED",
        `name of the created world: expected at most ${maxNameLength} characters, received ${name.length} ("${shorten(name)}"); give the world's type a shorter name`,
      );
    }
    span.end(undefined, { "dm_env_rpc.world.name": name });
  } catch (error) {
    span.end(toError(error));
    emit({ kind: "world-failed", serverId: server.id, what: "create", error: toError(error) });
    await createFailed(context, tasks, world, profile, error);
    return;
  }
  tasks.succeeded(serverKey(server.id));
  tasks.succeeded(typeKey(server.id, world.type));
  if (await opened(context, profile, { ...world, name })) {
    emit({ kind: "world-created", serverId: server.id, worldName: name });
    return;
  }
  // The world is not needed: its record is gone, or another leader has changed the record.
  await destroyUnused(context, server, name);
}

/** Destroys a world that has just been created and cannot be used. If the destroy fails, emits the error. */
async function destroyUnused(
  { servers, settings, emit }: DirectorContext,
  server: ServerRecord,
  name: string,
): Promise<void> {
  await servers.destroy(server, name, settings.worldCallMs).catch((error: unknown) => {
    if (isGone(error)) {
      return;
    }
    emit({ kind: "world-failed", serverId: server.id, what: "destroy", error: toError(error) });
  });
}

/**
 * Allocates the server of a world. If the allocation fails, the world's tickets wait again.
 *
 * @returns True if the world can be created now.
 */
async function isAllocated(
  context: DirectorContext,
  { id }: World,
  server: ServerRecord,
): Promise<boolean> {
  const { replica, settings } = context;
  if (!(await context.allocate(server))) {
    await unplace(context, id, (ticket) =>
      requeued(ticket, replica.now(), settings.awayMs, {
        code: "UNAVAILABLE",
        message: "a server for the match could not be allocated; the ticket waits for another one",
      }),
    );
    return false;
  }
  // In the meantime the match may have ended, or another matchmaker may lead.
  return context.lease() !== undefined && replica.get("world", id) !== undefined;
}

/**
 * Commits that a world exists, and assigns the tickets of its match in the same commit. Retries while the
 * store is unavailable. The world's record shows whether an earlier attempt succeeded.
 *
 * @returns False if the world is not needed and must be destroyed.
 */
async function opened(
  context: DirectorContext,
  profile: Profile,
  world: World & { readonly name: string },
): Promise<boolean> {
  const { replica, time } = context;
  for (;;) {
    try {
      const placed = world.matchId === undefined ? undefined : replica.get("match", world.matchId);
      const seats: Seats =
        placed === undefined
          ? new Map()
          : await reserve(
              context,
              profile,
              placed.value,
              world,
              ticketsOf(replica, placed.value).map(({ value }) => value.id),
            );
      let outcome: { readonly match: Match; readonly tickets: Ticket[] } | undefined;
      const committed = await change(context, () => {
        const made = openedChanges(context, world, seats);
        outcome = made?.outcome;
        return made?.changes;
      });
      if (committed && outcome !== undefined) {
        announce(context, outcome.match, world, outcome.tickets);
      }
      const now = replica.get("world", world.id)?.value;
      return committed || now?.name === world.name;
    } catch (error) {
      if (!isStoreError(error)) {
        throw error;
      }
      // An earlier attempt may have succeeded, or a new leader may have changed the world.
      const known = await replica.refresh([{ kind: "world", id: world.id }]).then(
        () => true,
        () => false,
      );
      if (known && error.reason === "fenced") {
        return replica.get("world", world.id)?.value.name === world.name;
      }
      // It is unknown whether the commit was made. If the commit was not made, the world is orphaned, and the
      // next leader finds the world in reports.
      if (!known && context.lease() === undefined) {
        return true;
      }
      if (!known) {
        await pause(time, storeRetryMs);
      }
    }
  }
}

function openedChanges(
  { replica }: DirectorContext,
  world: World & { readonly name: string },
  seats: Seats,
):
  | {
      readonly changes: Change[];
      readonly outcome: { match: Match; tickets: Ticket[] } | undefined;
    }
  | undefined {
  const stored = replica.get("world", world.id);
  if (stored?.value.state !== "creating") {
    return undefined;
  }
  const open: World = {
    ...stored.value,
    state: "open",
    name: world.name,
    openedMs: replica.now(),
    emptySinceMs: replica.now(),
    resetMs: replica.now(),
  };
  const changes: Change[] = [put("world", world.id, stored, open)];
  if (world.matchId === undefined) {
    return { changes, outcome: undefined };
  }
  const placed = replica.get("match", world.matchId);
  if (placed === undefined) {
    return undefined;
  }
  const match: Match = { ...placed.value, state: "live" };
  changes.push(put("match", match.id, placed, match));
  const tickets = ticketsOf(replica, match).filter(
    ({ value }) => value.state === "matched" && seats.has(value.id),
  );
  changes.push(...assign(match, tickets, seats));
  return { changes, outcome: { match, tickets: tickets.map(({ value }) => value) } };
}

async function createFailed(
  context: DirectorContext,
  tasks: WorldTasks,
  world: World,
  profile: Profile,
  error: unknown,
): Promise<void> {
  const { replica, settings } = context;
  const fault = faultOf(error);
  if (isUnreachable(error)) {
    context.suspect(world.serverId);
  }
  if (fault === "server") {
    tasks.failed(serverKey(world.serverId));
  } else if (fault === "world") {
    tasks.failed(typeKey(world.serverId, world.type));
  } else {
    tasks.failed(`profile ${profile.name}`);
  }
  const nowMs = replica.now();
  const fails = (message: string): Reason => ({ code: "FAILED_PRECONDITION", message });
  const waits = (message: string): Reason => ({ code: "UNAVAILABLE", message });
  // The error of a server that refuses to create any world, or cannot be reached, may contain the server's address. So
  // only the event has it.
  const why = fault === "server" ? "" : shorten(messageOf(error), maxReason);
  await unplace(context, world.id, (ticket) => {
    if (fault === "settings") {
      const text = `the world settings of profile "${profile.name}" were refused: ${why}; choose another profile, or tell the operator of the matchmaker`;
      return ended(ticket, "failed", nowMs, fails(text));
    }
    if (fault === "server") {
      const text = "a server could not create the match's world; the ticket waits for another one";
      return requeued(ticket, nowMs, settings.awayMs, waits(text));
    }
    const attempts = ticket.attempts + 1;
    if (attempts >= settings.maxAttempts) {
      const text = `a world for profile "${profile.name}" could not be created in ${attempts} attempts: ${why}; create another ticket later`;
      return ended({ ...ticket, attempts }, "failed", nowMs, fails(text));
    }
    const text = `the match's world could not be created: ${why}; the ticket waits for another one`;
    return requeued({ ...ticket, attempts }, nowMs, settings.awayMs, waits(text));
  });
}

/** Reverts a placement: removes the world and its match, and applies `fate` to each of the match's tickets. */
async function unplace(
  context: DirectorContext,
  worldId: string,
  fate: (ticket: Ticket) => Ticket,
): Promise<void> {
  const { replica } = context;
  await change(context, () => {
    const world = replica.get("world", worldId);
    return world?.value.state === "creating" ? worldEnded(replica, world, fate) : undefined;
  });
}
