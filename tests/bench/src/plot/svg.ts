// SPDX-License-Identifier: Apache-2.0

const fonts = 'font-family="system-ui, sans-serif" font-size="12"';

/** Text that is safe between tags and in attributes. */
export function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** A picture under a title. */
export function picture(title: string, width: number, height: number, parts: string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ${fonts}>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="10" y="26" font-size="16" font-weight="600">${escaped(title)}</text>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}
