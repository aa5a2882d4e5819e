// SPDX-License-Identifier: Apache-2.0

/** A channel that tools in the same process subscribe to. */
export interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

const withoutSubscribers: DiagnosticsChannel = { hasSubscribers: false, publish() {} };

/**
 * Returns the channel of a name from `node:diagnostics_channel`; in a page, which has no such module, a channel without
 * subscribers.
 *
 * The module is looked up at run time, because an import would prevent bundling for pages.
 */
export function diagnosticsChannel(name: string): DiagnosticsChannel {
  const channels = globalThis.process?.getBuiltinModule?.("diagnostics_channel");
  return channels?.channel(name) ?? withoutSubscribers;
}
