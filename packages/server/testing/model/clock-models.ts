// SPDX-License-Identifier: Apache-2.0
import type { MissedDeadlinePolicy } from "../../src/definition/clock.ts";
import type { Actions, AgentModel } from "./agent-model.ts";
import { type Alarm, Deadline } from "./timers.ts";

/** The world as a clock's model sees it. */
export interface Sequenced {
  readonly alarm: Alarm;
  readonly open: boolean;
  readonly blocked: boolean;
  /** The agents of the sequence in the order in which they joined. */
  readonly playing: readonly AgentModel[];
  /** Advances the world by a tick, without actions that it now refuses. */
  tick(actions: ReadonlyMap<AgentModel, Actions>): void;
  /**
   * Answers the step of an agent with an error if the world now refuses it; returns true if it
   * does.
   */
  refused(agent: AgentModel): boolean;
  answer(agent: AgentModel): void;
  evict(agent: AgentModel): void;
  /** Does everything that is due now. */
  progress(): void;
}

/** A simple model of when a world advances and which steps are answered. */
export interface ClockModel {
  /** True if the world advances without its agents. */
  readonly isContinuous: boolean;
  /**
   * Returns the actions in force after a step; undefined if it changes none. Only in real time do
   * they include more than the step's own actions.
   */
  inForceWith?(agent: AgentModel, given: Actions): Actions | undefined;
  opened(): void;
  entered(agent: AgentModel): void;
  stepped(agent: AgentModel): void;
  /** Called when the step of an agent was withdrawn. */
  withdrawn?(agent: AgentModel): void;
  ticked(): void;
  /** Performs one action that is due; returns true if there was one. */
  progress(): boolean;
  /** Called when everything that was due is done. */
  settled(): void;
  closed(): void;
}

/** Options of the clocks under test. */
export type ClockOptions =
  | {
      readonly kind: "lockstep" | "turns" | "wakeUp";
      readonly deadlineMs: number | undefined;
      readonly policy: MissedDeadlinePolicy;
    }
  | {
      readonly kind: "realtime";
      readonly periodMs: number;
      readonly newest: boolean;
      readonly policy: "repeat-last" | "default-action";
    }
  | { readonly kind: "freeRunning" };

/** The model of a clock. */
export function clockModel(options: ClockOptions, world: Sequenced): ClockModel {
  switch (options.kind) {
    case "lockstep":
      return lockstepModel(options, world);
    case "turns":
      return turnsModel(options, world);
    case "wakeUp":
      return wakeUpModel(options, world);
    case "realtime":
      return realtimeModel(options, world);
    case "freeRunning":
      return freeRunningModel(world);
  }
}

type Slow = Extract<ClockOptions, { readonly deadlineMs: unknown }>;

const isWaiting = (agent: AgentModel): boolean => agent.step !== undefined;

function answerWaiting(world: Sequenced): void {
  for (const agent of world.playing) {
    if (isWaiting(agent)) {
      world.answer(agent);
    }
  }
}

/** Adds the agent's step; without an outstanding step, its last step if `repeat` is true. */
function take(agent: AgentModel, repeat: boolean, actions: Map<AgentModel, Actions>): void {
  if (agent.step !== undefined) {
    agent.last = agent.step.actions;
  }
  const taken = agent.step?.actions ?? (repeat ? agent.last : undefined);
  if (taken !== undefined) {
    actions.set(agent, taken);
  }
}

function lockstepModel({ deadlineMs, policy }: Slow, world: Sequenced): ClockModel {
  const tick = (): void => {
    deadline.stop();
    const actions = new Map<AgentModel, Actions>();
    for (const agent of world.playing) {
      take(agent, policy === "repeat-last", actions);
    }
    world.tick(actions);
  };
  const deadline = new Deadline(world.alarm, policy === "wait" ? undefined : deadlineMs, () => {
    if (policy === "leave") {
      for (const agent of world.playing.filter((each) => !isWaiting(each))) {
        world.evict(agent);
      }
    } else {
      tick();
    }
    world.progress();
  });
  return {
    isContinuous: false,
    opened: () => answerWaiting(world),
    entered: (agent) => world.answer(agent),
    stepped() {},
    ticked: () => answerWaiting(world),
    progress() {
      if (world.blocked || !world.playing.every(isWaiting)) {
        return false;
      }
      tick();
      return true;
    },
    settled() {
      deadline.holds(world.open && !world.blocked && world.playing.some(isWaiting));
    },
    closed: () => deadline.stop(),
  };
}

function turnsModel({ deadlineMs, policy }: Slow, world: Sequenced): ClockModel {
  let current: AgentModel | undefined;
  const played = new Set<AgentModel>();
  const pass = (): void => {
    deadline.stop();
    const id = current?.id ?? 0;
    current = world.playing.find((agent) => agent.id > id) ?? world.playing[0];
  };
  const play = (agent: AgentModel): void => {
    if (world.refused(agent)) {
      return;
    }
    const actions = new Map<AgentModel, Actions>();
    if (isWaiting(agent)) {
      played.add(agent);
    }
    take(agent, policy === "repeat-last", actions);
    world.tick(actions);
  };
  const deadline = new Deadline(world.alarm, policy === "wait" ? undefined : deadlineMs, () => {
    if (current === undefined) {
      return;
    }
    if (policy === "leave") {
      world.evict(current);
    } else {
      play(current);
    }
    world.progress();
  });
  return {
    isContinuous: false,
    opened: pass,
    entered() {},
    stepped() {},
    withdrawn: (agent) => void played.delete(agent),
    ticked: pass,
    progress() {
      if (current === undefined || !current.playing) {
        pass();
        return true;
      }
      if (world.blocked || !isWaiting(current)) {
        return false;
      }
      if (!current.running || played.delete(current)) {
        world.answer(current);
      } else {
        play(current);
      }
      return true;
    },
    settled() {
      for (const agent of played) {
        if (!agent.playing) {
          played.delete(agent);
        }
      }
      const delays = (agent: AgentModel): boolean => agent !== current && isWaiting(agent);
      deadline.holds(world.open && !world.blocked && world.playing.some(delays));
    },
    closed() {
      deadline.stop();
      played.clear();
      current = undefined;
    },
  };
}

function wakeUpModel({ deadlineMs, policy }: Slow, world: Sequenced): ClockModel {
  /** Remaining ticks of each sleeping agent. */
  const asleep = new Map<AgentModel, number>();
  const fresh = new Set<AgentModel>();
  const sleep = (agent: AgentModel, actions: Actions | undefined): void => {
    asleep.set(agent, actions?.sleep ?? 1);
    fresh.add(agent);
  };
  const forget = (): void => {
    for (const agent of asleep.keys()) {
      if (!agent.playing) {
        asleep.delete(agent);
      }
    }
    for (const agent of fresh) {
      if (!agent.playing) {
        fresh.delete(agent);
      }
    }
  };
  const deadline = new Deadline(world.alarm, policy === "wait" ? undefined : deadlineMs, () => {
    for (const agent of world.playing.filter((each) => !asleep.has(each))) {
      if (policy === "leave") {
        world.evict(agent);
      } else {
        sleep(agent, policy === "repeat-last" ? agent.last : undefined);
      }
    }
    world.progress();
  });
  return {
    isContinuous: false,
    opened: () => answerWaiting(world),
    entered: (agent) => world.answer(agent),
    stepped: (agent) => sleep(agent, agent.step?.actions),
    withdrawn(agent) {
      asleep.delete(agent);
      fresh.delete(agent);
    },
    ticked() {
      for (const [agent, ticks] of [...asleep]) {
        if (ticks > 1 && agent.playing) {
          asleep.set(agent, ticks - 1);
        } else {
          asleep.delete(agent);
        }
        if (!asleep.has(agent) && agent.playing && isWaiting(agent)) {
          world.answer(agent);
        }
      }
    },
    progress() {
      forget();
      if (world.blocked || !world.playing.every((agent) => asleep.has(agent))) {
        return false;
      }
      deadline.stop();
      const actions = new Map<AgentModel, Actions>();
      for (const agent of fresh) {
        take(agent, policy === "repeat-last", actions);
      }
      fresh.clear();
      world.tick(actions);
      return true;
    },
    settled() {
      forget();
      deadline.holds(world.open && !world.blocked && asleep.size > 0);
    },
    closed() {
      deadline.stop();
      asleep.clear();
      fresh.clear();
    },
  };
}

function realtimeModel(
  { periodMs, newest, policy }: Extract<ClockOptions, { kind: "realtime" }>,
  world: Sequenced,
): ClockModel {
  const latest = new Map<AgentModel, Actions>();
  let cancel: (() => void) | undefined;
  let dueAt = Number.NEGATIVE_INFINITY;
  const schedule = (): void => {
    cancel = world.alarm.after(Math.max(0, dueAt - world.alarm.now), () => {
      if (world.blocked) {
        dueAt += periodMs;
        schedule();
        return;
      }
      const actions = new Map(latest);
      if (policy === "default-action") {
        latest.clear();
      }
      world.tick(actions);
      world.progress();
    });
  };
  const inForceWith = (agent: AgentModel, given: Actions): Actions | undefined =>
    Object.keys(given).length > 0 ? { ...latest.get(agent), ...given } : undefined;
  return {
    isContinuous: true,
    inForceWith,
    opened() {
      answerWaiting(world);
      const { now } = world.alarm;
      if (now - dueAt >= periodMs) {
        dueAt = now + periodMs;
      } else if (now >= dueAt) {
        dueAt += periodMs;
      }
      schedule();
    },
    entered: (agent) => world.answer(agent),
    stepped(agent) {
      const actions = inForceWith(agent, agent.step?.actions ?? {});
      if (actions !== undefined) {
        latest.set(agent, actions);
      }
      if (newest) {
        world.answer(agent);
      }
    },
    ticked() {
      answerWaiting(world);
      dueAt += periodMs;
      schedule();
    },
    progress: () => false,
    settled() {
      for (const agent of latest.keys()) {
        if (!agent.playing) {
          latest.delete(agent);
        }
      }
    },
    closed() {
      cancel?.();
      latest.clear();
    },
  };
}

function freeRunningModel(world: Sequenced): ClockModel {
  let acting: AgentModel | undefined;
  return {
    isContinuous: false,
    opened: () => answerWaiting(world),
    entered: (agent) => world.answer(agent),
    stepped() {},
    ticked() {
      if (acting !== undefined && isWaiting(acting) && acting.playing) {
        world.answer(acting);
      }
    },
    progress() {
      acting = world.playing.find(isWaiting);
      if (world.blocked || acting === undefined) {
        return false;
      }
      if (world.refused(acting)) {
        return true;
      }
      world.tick(new Map([[acting, acting.step?.actions ?? {}]]));
      return true;
    },
    settled() {},
    closed() {},
  };
}
