// SPDX-License-Identifier: Apache-2.0
import type { Duration } from "@bufbuild/protobuf/wkt";

/** Returns a duration in milliseconds; undefined if the duration is missing or not positive. */
export function milliseconds(duration: Duration | undefined): number | undefined {
  if (duration === undefined) {
    return undefined;
  }
  const ms = Number(duration.seconds) * 1_000 + duration.nanos / 1_000_000;
  return ms > 0 ? ms : undefined;
}
