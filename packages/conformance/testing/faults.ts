// SPDX-License-Identifier: Apache-2.0

import type { MeadowClock } from "./meadow-clocks.ts";

/** A mistake in the server's code and the checks that find it. */
export interface Fault {
  /** Text that occurs once in the server's sources; line breaks do not matter. */
  readonly replace: string;
  readonly by: string;
  /** The check of the behaviour that the fault breaks. */
  readonly foundBy: string;
  /** Other checks that also fail, because they depend on the same code. */
  readonly alsoBy?: readonly string[];
  /** Clock of the meadows that are checked. Default `lockstep`. */
  readonly clock?: MeadowClock;
}

/** Checks that look for a name in an error. */
const named = [
  "18.exact-uids",
  "21.unknown-create-setting",
  "21.unknown-join-setting",
  "21.unknown-reset-setting",
  "21.unknown-reset-world-setting",
  "21.required-settings",
  "21.bad-settings",
  "34.unknown-action",
  "35.unknown-observation",
];

/** Mistakes, each made in a copy of the server. */
export const faults: Readonly<Record<string, Fault>> = {
  "a leave that is answered twice": {
    replace: "if (!this.#send(response)) { this.#full = true; }",
    by: `if (response.case === "leaveWorld") this.#send(response);
         if (!this.#send(response)) this.#full = true;`,
    foundBy: "2.one-response-each",
    alsoBy: ["3.in-flight"],
  },
  "requests taken in the wrong order": {
    replace: "this.#others.push(request);",
    by: "this.#others.splice(Math.max(this.#next, this.#others.length - 1), 0, request);",
    foundBy: "3.order-of-queued-steps",
  },
  "an end that is delivered twice": {
    replace: "this.#become(seat, idle); pending.reply(",
    by: `this.#become(seat, { kind: "ended", seat, state, reward, saved: undefined, excused: false });
         pending.reply(`,
    foundBy: "5.transitions",
    alsoBy: ["32.first-step-of-the-next", "44.releases-blocked-steps"],
  },
  "errors that say nothing": {
    replace: "packStatus(clientError(error))",
    by: 'packStatus(new DmEnvRpcError(clientError(error).code, "something went wrong"))',
    foundBy: "7.errors-differ",
    alsoBy: ["7.errors-say-what-came", ...named],
  },
  "errors with stack traces": {
    replace: "packStatus(clientError(error))",
    by: "packStatus(new DmEnvRpcError(clientError(error).code, String(clientError(error).stack)))",
    foundBy: "7.no-stack-traces",
  },
  "undefined codes": {
    replace: "packStatus(clientError(error))",
    by: "{ ...packStatus(clientError(error)), code: 99 }",
    foundBy: "7.errors-have-codes",
    alsoBy: ["46.unknown-key", "46.not-permitted", "46.bad-value"],
  },
  "requests lost at a half-close": {
    replace: "this.#ended = true;",
    by: "this.#ended = true; this.#queue.clear();",
    foundBy: "8.half-close-while-waiting",
  },
  "agents that stay when their stream breaks off": {
    replace: "this.#drop(); } this.#spans.end(error);",
    by: "} this.#spans.end(error);",
    foundBy: "8.drop-leaves",
    alsoBy: ["43.dropped-stream"],
  },
  "actions of any shape": {
    replace: "toValue(unpackFor(tensor, spec, name, this.#limits), spec)",
    by: "toValue(unpackFor(tensor, { ...spec, shape: tensor.shape }, name), spec)",
    foundBy: "10.wrong-shape",
  },
  "actions of any dtype": {
    replace: "toValue(unpackFor(tensor, spec, name, this.#limits), spec)",
    by: "toValue(unpackFor(tensor, { ...spec, dtype: tensor.dtype }, name), spec)",
    foundBy: "13.no-cast",
  },
  "bounds that are not enforced": {
    replace: "toValue(unpackFor(tensor, spec, name, this.#limits), spec)",
    by: "toValue(unpackFor(tensor, { dtype: spec.dtype, shape: spec.shape }, name), spec)",
    foundBy: "17.out-of-range",
  },
  "UIDs that are rounded": {
    replace: 'throw unknownUid("observation", uid, this.observations)',
    by: 'throw unknownUid("observation", Number(uid), this.observations)',
    foundBy: "18.exact-uids",
    alsoBy: ["7.errors-say-what-came", "35.unknown-observation"],
  },
  "unknown settings": {
    replace: "if (!Object.hasOwn(specs, name)) {",
    by: "if (false) {",
    foundBy: "21.unknown-create-setting",
    alsoBy: [
      "21.unknown-join-setting",
      "21.unknown-reset-setting",
      "21.unknown-reset-world-setting",
    ],
  },
  "a join while joined": {
    replace: "if (this.#place !== undefined) { throw joinedAlready(this.#place.world.name); }",
    by: "",
    foundBy: "27.join-twice",
  },
  "a first sequence that does not wait": {
    replace: "this.#settings.counts.min",
    by: "0",
    foundBy: "28.enough-agents",
  },
  "a leave that needs a join": {
    replace: "if (place === undefined) { done(undefined); }",
    by: "if (place === undefined) { done(notJoined.reset); }",
    foundBy: "29.leave-not-joined",
    alsoBy: ["2.one-response-each"],
  },
  "a destroy that puts agents out": {
    replace: 'onDestroy = "refuse"',
    by: 'onDestroy = "force"',
    foundBy: "30.while-joined",
  },
  "observations that were not requested": {
    replace: "entries.add(entry);",
    by: "for (const other of this.observations.entries) entries.add(other);",
    foundBy: "31.nothing-requested",
    alsoBy: ["3.order-of-steps", "3.order-of-queued-steps", "14.packed-or-not"],
  },
  "actions on the first step": {
    replace: "first ? noActions : specs.readActions(request)",
    by: "specs.readActions(request)",
    foundBy: "32.first-step",
    alsoBy: ["32.first-step-of-the-next", "38.ignores-the-next-action"],
  },
  "unknown actions left out": {
    replace: 'if (action === undefined) { throw unknownUid("action", uid, this.actions); }',
    by: "if (action === undefined) { continue; }",
    foundBy: "34.unknown-action",
  },
  "an observation that must not be requested twice": {
    replace: "entries.add(entry);",
    by: `if (entries.has(entry)) throw unknownUid("observation", uid, this.observations);
         entries.add(entry);`,
    foundBy: "35.repeated-observation",
  },
  "a reward of the wrong dtype": {
    replace: "?? zeros(",
    by: '?? zeros({ dtype: "float64", shape: [] }) ?? zeros(',
    foundBy: "36.observations-fit",
  },
  "ticks that do not wait for every agent": {
    replace: "} else if (sequence.waiting === sequence.running.size) { tick();",
    by: "} else if (sequence.waiting > 0) { tick();",
    foundBy: "37.all-together",
    alsoBy: ["44.releases-blocked-steps", "62.errors-are-no-arrival"],
  },
  "a reset that ends the sequence of all": {
    replace: "this.#become(seat, resetting);",
    by: "this.#interrupt(); this.#become(seat, resetting);",
    foundBy: "38.this-agent-only",
  },
  "a reset without specs": {
    replace: "create(ResetResponseSchema, { specs: specs.message })",
    by: "create(ResetResponseSchema)",
    foundBy: "40.resends-specs",
  },
  "a missing INTERRUPTED": {
    replace: "this.#endFor(running, INTERRUPTED);",
    by: "this.#endFor(running, RUNNING);",
    foundBy: "41.tells-each-once",
    alsoBy: [
      "41.last-observations",
      "41.caller-is-not-told",
      "41.reset-instead-of-step",
      "41.leave-instead-of-step",
      "43.dropped-stream",
      "44.releases-blocked-steps",
    ],
  },
  "a reset of the world without interruptions": {
    replace: "state.reset = reset; this.#interrupt();",
    by: "state.reset = reset;",
    foundBy: "41.tells-each-once",
    alsoBy: [
      "41.last-observations",
      "41.caller-is-not-told",
      "41.reset-instead-of-step",
      "41.leave-instead-of-step",
      "43.dropped-stream",
      "42.by-any-connection",
      "44.releases-blocked-steps",
    ],
  },
  "a reset of the world that does not wait": {
    replace: "awaited.add(of);",
    by: "{}",
    foundBy: "41.tells-each-once",
    alsoBy: [
      "41.last-observations",
      "41.caller-is-not-told",
      "41.reset-instead-of-step",
      "41.leave-instead-of-step",
      "43.dropped-stream",
      "42.by-any-connection",
    ],
  },
  "steps that stay blocked in a reset of the world": {
    replace: "if (pending !== undefined && !pending.first) { const observations",
    by: "if (pending !== undefined && !pending.first && state !== INTERRUPTED) { const observations",
    foundBy: "44.releases-blocked-steps",
  },
  "first steps that do not wait for each other": {
    replace: "opening + excused < seats.size",
    by: "false",
    foundBy: "60.first-steps-together",
  },
  "a world in real time that waits for silent agents": {
    replace: 'name: "realtime", continuous: true,',
    by: 'name: "realtime",',
    foundBy: "65.silent-agent",
    alsoBy: ["3.in-flight"],
    clock: "realtime",
  },
};
