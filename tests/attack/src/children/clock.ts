// SPDX-License-Identifier: Apache-2.0

/** Returns the time in milliseconds, on a clock that all processes of this machine share. */
export function clockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
