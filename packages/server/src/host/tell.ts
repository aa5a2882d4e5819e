// SPDX-License-Identifier: Apache-2.0

/**
 * Calls a listener. An error that it throws is rethrown as an uncaught exception and never reaches
 * the caller.
 */
export function tell(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
