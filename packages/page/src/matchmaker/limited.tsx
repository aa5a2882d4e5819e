// SPDX-License-Identifier: Apache-2.0
import { formatNumber } from "../format.ts";

/** Maximum number of rows of a table. */
export const maxRows = 200;

/** Shows how many rows a table leaves out. */
export function Limited({ count }: { readonly count: number }) {
  return count > maxRows ? <p>{formatNumber(count - maxRows)} more are not listed.</p> : null;
}
