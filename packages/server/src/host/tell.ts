// SPDX-License-Identifier: Apache-2.0

/** Calls a listener. What it throws never reaches the caller: it is thrown again where it is an uncaught exception. */
export function tell(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    process.nextTick(() => {
      throw error;
    });
  }
}
