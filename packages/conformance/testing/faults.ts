// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  EnvironmentStateType,
  type JoinWorldResponse,
  LeaveWorldResponseSchema,
  ResetResponseSchema,
  ResetWorldResponseSchema,
} from "@dm-env-rpc/protocol";
import type { ProcessResponse, StepRequest, Uid } from "@dm-env-rpc/tensor-codec";
import { errorOf, type Fault } from "./faulty-stream.ts";

const { RUNNING, INTERRUPTED } = EnvironmentStateType;

/** Swaps the answers to requests that are in flight together. */
function wrongOrder(): Fault {
  let open = 0;
  let held: ProcessResponse | undefined;
  return {
    onRequest(request, { deliver }) {
      open += 1;
      // Later, so that requests that came together are open together.
      setImmediate(() => deliver(request));
    },
    onResponse(response, { answer }) {
      open -= 1;
      if (held === undefined && open > 0) {
        held = response;
        return;
      }
      answer(response);
      if (held !== undefined) answer(held);
      held = undefined;
    },
  };
}

/** Tells agents that they are RUNNING when their sequence was interrupted. */
function noInterrupted(): Fault {
  return {
    onResponse(response, { answer }) {
      if (response.case !== "step" || response.value.state !== INTERRUPTED) answer(response);
      else answer({ case: "step", value: { ...response.value, state: RUNNING } });
    },
  };
}

/** Repeats the end of a sequence in place of the first step of the next. */
function endsTwice(): Fault {
  let state: EnvironmentStateType = RUNNING;
  return {
    onResponse(response, { answer }) {
      if (response.case !== "step") {
        answer(response);
        return;
      }
      const told = state === RUNNING ? response.value.state : state;
      state = state === RUNNING ? told : RUNNING;
      answer({ case: "step", value: { ...response.value, state: told } });
    },
  };
}

/** Takes the actions of a first step seriously. */
function actionsOnFirstSteps(): Fault {
  let running = false;
  return {
    onRequest(request, { deliver, answer }) {
      if (request.case === "step" && !running && request.value.actions.length > 0) {
        answer(errorOf("there is no such action"));
      } else deliver(request);
    },
    onResponse(response, { answer }) {
      if (response.case === "step") running = response.value.state === RUNNING;
      else if (response.case !== "error") running = false;
      answer(response);
    },
  };
}

/** Changes the steps of an agent, knowing the UIDs of what it can observe. */
function changedSteps(change: (step: StepRequest, known: readonly Uid[]) => StepRequest): Fault {
  let known: readonly Uid[] = [];
  return {
    onRequest(request, { deliver }) {
      deliver(
        request.case === "step" ? { case: "step", value: change(request.value, known) } : request,
      );
    },
    onResponse(response, { answer }) {
      if (response.case === "joinWorld") {
        known = Object.keys(response.value.specs?.observations ?? {}).map(Number);
      }
      answer(response);
    },
  };
}

/** Returns every observation, asked for or not. */
const everything = (): Fault =>
  changedSteps((step, known) => ({ ...step, requestedObservations: known }));

/** Leaves out observations that it does not have, in place of an error. */
const unknownObservations = (): Fault =>
  changedSteps((step, known) => ({
    ...step,
    requestedObservations: step.requestedObservations.filter((uid) => known.includes(uid)),
  }));

/** Looks at no action. */
const uncheckedActions = (): Fault => changedSteps((step) => ({ ...step, actions: [] }));

/** Answers a reset without specs. */
function resetWithoutSpecs(): Fault {
  return {
    onResponse(response, { answer }) {
      answer(
        response.case === "reset"
          ? { case: "reset", value: create(ResetResponseSchema) }
          : response,
      );
    },
  };
}

/** Refuses a leave while not joined. */
function leaveNeedsJoin(): Fault {
  let joined = false;
  return {
    onRequest(request, { deliver, answer }) {
      if (request.case === "leaveWorld" && !joined) answer(errorOf("no world has been joined"));
      else deliver(request);
    },
    onResponse(response, { answer }) {
      if (response.case === "joinWorld") joined = true;
      if (response.case === "leaveWorld") joined = false;
      answer(response);
    },
  };
}

/** Accepts a join while joined. */
function joinsTwice(): Fault {
  let joined: JoinWorldResponse | undefined;
  return {
    onRequest(request, { deliver, answer }) {
      if (request.case === "leaveWorld") joined = undefined;
      if (request.case === "joinWorld" && joined !== undefined) {
        answer({ case: "joinWorld", value: joined });
      } else deliver(request);
    },
    onResponse(response, { answer }) {
      if (response.case === "joinWorld") joined = response.value;
      answer(response);
    },
  };
}

/** Answers a reset of the world before anybody has been told. */
function resetWorldAtOnce(): Fault {
  return {
    onRequest(request, { deliver, answer }) {
      deliver(request);
      if (request.case === "resetWorld") {
        answer({ case: "resetWorld", value: create(ResetWorldResponseSchema) });
      }
    },
    onResponse(response, { answer }) {
      if (response.case !== "resetWorld") answer(response);
    },
  };
}

/** Says the same twice. */
function answersTwice(): Fault {
  return {
    onResponse(response, { answer }) {
      answer(response);
      if (response.case === "leaveWorld") {
        answer({ case: "leaveWorld", value: create(LeaveWorldResponseSchema) });
      }
    },
  };
}

/** Never answers a reset. */
function noAnswer(): Fault {
  return {
    onResponse(response, { answer }) {
      if (response.case !== "reset") answer(response);
    },
  };
}

/** Drops what is queued at a half-close. */
function dropsAtHalfClose(): Fault {
  let over = false;
  return {
    onRequest: (request, { deliver }) => {
      setTimeout(() => {
        if (!over) deliver(request);
      }, 5);
    },
    onEnd({ end }) {
      over = true;
      end();
      return true;
    },
  };
}

/** Counts UIDs in doubles. */
function roundedUids(): Fault {
  return {
    onResponse(response, { answer }) {
      if (response.case === "error") {
        const { message } = response.value;
        response.value.message = message.replace(/\d{16,}/g, (digits) => `${Number(digits)}`);
      }
      answer(response);
    },
  };
}

/** Each fault, and a check that must find it. */
export const faults: Readonly<Record<string, { make: () => Fault; foundBy: string }>> = {
  "answers in the wrong order": { make: wrongOrder, foundBy: "3.in-flight" },
  "a missing INTERRUPTED": { make: noInterrupted, foundBy: "41.tells-each-once" },
  "an end that is told twice": { make: endsTwice, foundBy: "5.transitions" },
  "actions on the first step": { make: actionsOnFirstSteps, foundBy: "32.first-step" },
  "observations that nobody asked for": { make: everything, foundBy: "31.nothing-requested" },
  "unknown observations left out": { make: unknownObservations, foundBy: "35.unknown-observation" },
  "actions that nobody checks": { make: uncheckedActions, foundBy: "17.out-of-range" },
  "a reset without specs": { make: resetWithoutSpecs, foundBy: "40.resends-specs" },
  "a leave that needs a join": { make: leaveNeedsJoin, foundBy: "29.leave-not-joined" },
  "a join while joined": { make: joinsTwice, foundBy: "27.join-twice" },
  "a reset of the world that does not wait": {
    make: resetWorldAtOnce,
    foundBy: "41.tells-each-once",
  },
  "an answer that comes twice": { make: answersTwice, foundBy: "2.one-response-each" },
  "a request without an answer": { make: noAnswer, foundBy: "39.twice" },
  "requests lost at a half-close": { make: dropsAtHalfClose, foundBy: "8.half-close" },
  "UIDs that are rounded": { make: roundedUids, foundBy: "18.exact-uids" },
};
