// SPDX-License-Identifier: Apache-2.0

/**
 * Returns the network that identifies a peer: its IPv4 address, or the first 64 bits of its IPv6
 * address, which are assigned to one subscriber. An address of another form is returned unchanged.
 *
 * @param address `host:port`, `[host]:port` or `unix:`.
 */
export function networkOf(address: string): string {
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replace(/^\[|\]$/g, "");
  if (!host.includes(":")) {
    return host === "" ? address : host;
  }
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(host);
  if (mapped?.[1] !== undefined) {
    return mapped[1];
  }
  const [head = "", tail] = host.replace(/%.*$/, "").split("::");
  const groups = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  if (tail !== undefined) {
    groups.push(
      ...Array.from({ length: Math.max(0, 8 - groups.length - after.length) }, () => "0"),
    );
  }
  return `${[...groups, ...after].slice(0, 4).join(":")}::/64`;
}
