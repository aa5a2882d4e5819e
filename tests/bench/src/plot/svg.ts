// SPDX-License-Identifier: Apache-2.0

/** How text looks, as attributes. */
export const fonts = 'font-family="system-ui, sans-serif" font-size="12"';

/** Text that is safe between tags and in attributes. */
export function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
