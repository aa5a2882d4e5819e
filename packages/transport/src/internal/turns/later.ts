// SPDX-License-Identifier: Apache-2.0

/**
 * Runs a task in a later turn of the event loop, after pending input, in the order of the calls.
 *
 * Pages use a MessageChannel: browsers delay nested timers by 4 ms, and by a second in a hidden tab.
 */
export const later: (task: () => void) => void =
  typeof setImmediate === "function"
    ? (task) => void setImmediate(task)
    : /* @__PURE__ */ laterByMessage();

/** Creates `later` for platforms without `setImmediate`. */
export function laterByMessage(): (task: () => void) => void {
  const tasks: (() => void)[] = [];
  const { port1, port2 } = new MessageChannel();
  port1.addEventListener("message", () => tasks.shift()?.());
  port1.start();
  return (task) => {
    tasks.push(task);
    port2.postMessage(undefined);
  };
}
