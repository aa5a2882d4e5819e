// SPDX-License-Identifier: Apache-2.0
import { noSpan, type SpanAttributes, type StartSpan } from "./trace-span.ts";

export type { SpanAttributes, SpanOptions, StartSpan, TraceSpan } from "./trace-span.ts";
export { noSpan } from "./trace-span.ts";

/** Returns false: pages record no spans. */
export function isTracing(): boolean {
  return false;
}

/** Pages record no spans, so that they need not load the API of OpenTelemetry. */
export function tracerOf(_scope: string): StartSpan {
  return () => noSpan;
}

/** Returns no attributes, because pages record no spans. */
export function clientOf(_address: string): SpanAttributes {
  return {};
}

/** Returns no metadata, because pages record no spans. */
export function traceMetadata(): Readonly<Record<string, string>> {
  return {};
}

/** Calls a function. Pages have no trace from which it would have to be detached. */
export function detached<T>(run: () => T): T {
  return run();
}
