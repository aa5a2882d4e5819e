// SPDX-License-Identifier: Apache-2.0
import { Counts, pause, toError } from "@dm-env-rpc/transport/internal";
import type { MatchProposal, WaitingTicket } from "../../functions/match-function.ts";
import type { CustomMatchFunction } from "../../functions/profile-function.ts";
import type { Profile } from "../../profiles/profile.ts";
import type { DirectorContext, Proposal } from "../context.ts";
import { Slice } from "../slice.ts";
import type { WorldTasks } from "../worlds/world-tasks.ts";
import { Proposals } from "./proposals.ts";

/**
 * Maximum number of abandoned calls of a profile's function that may be pending. At this number, the function
 * is not called again until one of the calls settles.
 */
const maxAbandoned = 3;

/** The run of one profile's function. */
interface Run {
  /**
   * The profile that the run was started for. It is compared by reference, because a profile that is put again
   * is a new object.
   */
  readonly profile: Profile;
  /** The proposals of the run; undefined until the run has ended. */
  proposals: readonly Proposal[] | undefined;
  readonly startedMs: number;
  /** Revision of the tickets when the run started. */
  readonly revision: number;
}

/**
 * Runs custom match functions concurrently with the ticks of the director. The function of each
 * profile runs separately, for a limited time. A tick takes the proposals that are ready, and starts
 * the runs that are due.
 */
export class MatchRuns {
  readonly #context: DirectorContext;
  readonly #tasks: WorldTasks;
  readonly #runs = new Map<string, Run>();
  readonly #abandoned = new Counts<string>();
  #ended = new AbortController();

  constructor(context: DirectorContext, tasks: WorldTasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  /**
   * Returns the ready proposals of a profile. If no proposal is ready, starts a run that proposes at most `most`
   * matches, under one of two conditions: tickets or profiles have changed since the last run started, or
   * `tickMs` has passed since then. A profile has one current run. Abandoned runs may still be pending.
   */
  take(profile: Profile, match: CustomMatchFunction, most: number): readonly Proposal[] {
    const { matchIndex, settings, time } = this.#context;
    const run = this.#runs.get(profile.name);
    if (run?.profile !== profile) {
      this.#start(profile, match, most);
      return [];
    }
    const { proposals, revision, startedMs } = run;
    if (proposals === undefined) {
      return [];
    }
    run.proposals = [];
    // The tickets of a proposal may have been cancelled or matched in the meantime.
    const waiting = proposals.filter(({ teams }) =>
      Object.values(teams).every((team) => team.every(({ id }) => matchIndex.waiting.has(id))),
    );
    const isDue =
      revision !== matchIndex.ticketRevision || time.now() - startedMs >= settings.tickMs;
    if (waiting.length === 0 && isDue) {
      this.#start(profile, match, most);
    }
    return waiting;
  }

  /** Abandons the runs in progress. For use when this matchmaker no longer leads, or closes. */
  reset(): void {
    this.#ended.abort();
    this.#ended = new AbortController();
    this.#runs.clear();
  }

  #start(profile: Profile, match: CustomMatchFunction, most: number): void {
    const { matchIndex, time } = this.#context;
    const pools = matchIndex.poolsOf(profile.name);
    if (most === 0 || pools === undefined || this.#tasks.isCooling(coolingKey(profile))) {
      return;
    }
    if (this.#abandoned.of(profile.name) >= maxAbandoned) {
      return;
    }
    const run: Run = {
      profile,
      proposals: undefined,
      startedMs: time.now(),
      revision: matchIndex.ticketRevision,
    };
    this.#runs.set(profile.name, run);
    void this.#ask(profile, match, pools, most).then((proposals) => {
      run.proposals = proposals;
      if (proposals.length > 0) {
        this.#context.wake();
      }
    });
  }

  /** Requests at most `most` matches from a function, until it ends or its time is over. Never rejects. */
  async #ask(
    profile: Profile,
    match: CustomMatchFunction,
    pools: ReadonlyMap<string, readonly WaitingTicket[]>,
    most: number,
  ): Promise<readonly Proposal[]> {
    const { time, settings, replica } = this.#context;
    const limitMs = settings.matchFunctionMs;
    const offered = new Set([...pools.values()].flatMap((pool) => pool.map(({ id }) => id)));
    const proposals = new Proposals(this.#context, profile, (id) => offered.has(id));
    const ended = this.#ended.signal;
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, ended]);
    const late = pause(time, limitMs, signal).then((): "late" => "late");
    let heldUpMs = 0;
    /**
     * True if the run failed without a proposal, or blocked the process. The function then has a cooldown.
     */
    let hasFailed = false;
    let iterator: Iterator<MatchProposal> | AsyncIterator<MatchProposal> | undefined;
    /**
     * Calls the operator's function. Throws if the call blocks the process for longer than `limitMs`, or if the time
     * of the run is over before the call settles.
     *
     * @param due What the function has not done when its time is over.
     */
    const call = async <T>(due: string, run: () => T | PromiseLike<T>): Promise<T> => {
      const beganMs = time.now();
      const answer = run();
      const heldMs = time.now() - beganMs;
      if (heldMs > limitMs) {
        heldUpMs = heldMs;
        throw new Error(
          `the match function held up the whole matchmaker: expected at most ${limitMs} ms, received ${Math.round(heldMs)} ms; make it a generator that proposes as it goes, or run it in a worker thread by workerFunction (limit: matchFunctionMs)`,
        );
      }
      const settled = Promise.resolve(answer);
      const outcome = await Promise.race([settled, late]);
      if (outcome === "late") {
        this.#abandon(profile, settled);
        throw new Error(
          `the match function did not ${due}; make it faster, or raise matchFunctionMs (limit: matchFunctionMs)`,
        );
      }
      return outcome;
    };
    try {
      const context = {
        profile: profile.name,
        parameters: {},
        pools,
        nowMs: replica.now(),
        signal,
      };
      const made = await call(`answer within ${limitMs} ms`, () => match(context));
      const slice = new Slice(time);
      const asked =
        Symbol.asyncIterator in made ? made[Symbol.asyncIterator]() : made[Symbol.iterator]();
      iterator = asked;
      while (proposals.asked < most) {
        const next = await call(
          `finish within ${limitMs} ms and was stopped (proposals made and used: ${proposals.made.length})`,
          () => asked.next(),
        );
        if (next.done === true) {
          iterator = undefined;
          break;
        }
        proposals.add(next.value);
        await slice.next();
      }
    } catch (error) {
      // The function is not at fault if this matchmaker has ended the run.
      if (!ended.aborted) {
        hasFailed = heldUpMs > 0 || proposals.made.length === 0;
        proposals.bad(toError(error));
      }
    } finally {
      over.abort();
      if (hasFailed) {
        this.#tasks.failed(coolingKey(profile), heldUpMs);
      } else {
        this.#tasks.succeeded(coolingKey(profile));
      }
      this.#close(profile, iterator);
    }
    proposals.end();
    return proposals.made;
  }

  /** Closes a generator that was not read to its end, so that it can clean up. */
  #close(
    profile: Profile,
    iterator: Iterator<MatchProposal> | AsyncIterator<MatchProposal> | undefined,
  ): void {
    try {
      const returned: unknown = iterator?.return?.();
      if (returned instanceof Promise) {
        this.#abandon(profile, returned);
      }
    } catch (error) {
      this.#context.emit({ kind: "bad-proposal", profile: profile.name, error: toError(error) });
    }
  }

  /** Counts a promise of an abandoned run until it settles. */
  #abandon({ name }: Profile, promise: Promise<unknown>): void {
    const settled = this.#abandoned.add(name);
    promise.then(settled, (error: unknown) => {
      settled();
      this.#context.emit({ kind: "bad-proposal", profile: name, error: toError(error) });
    });
  }
}

function coolingKey({ name }: Profile): string {
  return `function of ${name}`;
}
