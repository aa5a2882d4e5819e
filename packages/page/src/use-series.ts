// SPDX-License-Identifier: Apache-2.0
import { useMemo } from "preact/hooks";
import type { History } from "./history.ts";

/** Returns the series that the plots of a history show: times, steps per second and mean returns. */
export function useSeries({ samples }: History) {
  return useMemo(
    () => ({
      times: samples.map(({ timeMs }) => timeMs),
      steps: samples.map(({ stepsPerSecond }) => stepsPerSecond),
      returns: samples.map(({ meanReturn }) => meanReturn),
    }),
    [samples],
  );
}
