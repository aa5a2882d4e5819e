// SPDX-License-Identifier: Apache-2.0

/** Attributes of a span, by the names of OpenTelemetry's semantic conventions. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** Options of a span. */
export interface SpanOptions {
  /** `server` handles a request, `client` sends one, and `consumer` processes a batch of messages. */
  readonly kind: "server" | "client" | "consumer";
  /**
   * The parent: metadata of the request that is handled, or the `traceparent` of a span. Default:
   * the span begins a trace.
   */
  readonly parent?: ReadonlyMap<string, string> | string | undefined;
  /** The `traceparent` of each span that is linked to this span. */
  readonly links?: readonly (string | undefined)[] | undefined;
  readonly attributes?: SpanAttributes | undefined;
}

/** A span of an OpenTelemetry trace. Without an SDK, nothing is recorded. */
export interface TraceSpan {
  /** False if nothing is recorded: without an SDK, or if the trace is not sampled. */
  readonly isRecording: boolean;
  /** Identity of the span, as the header `traceparent` of W3C Trace Context; undefined without an SDK. */
  readonly traceparent: string | undefined;
  /** Metadata with which a request continues the trace; empty without an SDK. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Links another span. */
  link(traceparent: string | undefined): void;
  /** Ends the span, with the error if its operation failed. Later calls have no effect. */
  end(error?: Error, attributes?: SpanAttributes): void;
}

/** A span that records nothing. */
export const noSpan: TraceSpan = {
  isRecording: false,
  traceparent: undefined,
  metadata: {},
  link() {},
  end() {},
};

/** Starts a span. */
export type StartSpan = (name: string, options: SpanOptions) => TraceSpan;
