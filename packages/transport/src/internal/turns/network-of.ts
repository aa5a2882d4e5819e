// SPDX-License-Identifier: Apache-2.0

/**
 * Returns the network that identifies a peer: its IPv4 address, or the first 64 bits of its IPv6
 * address, which are assigned to one subscriber. A name is returned as it is, and so is an address without a port.
 *
 * @param address `host:port`, `[host]:port`, or an address of another form, such as `unix:`.
 */
export function networkOf(address: string): string {
  let network = networks.get(address);
  if (network === undefined) {
    network = parseNetwork(address);
    if (networks.size >= maxNetworks) {
      networks.clear();
    }
    networks.set(address, network);
  }
  return network;
}

/** Networks by address: several are looked up for each stream of a connection. */
const networks = new Map<string, string>();
const maxNetworks = 1_024;

function parseNetwork(address: string): string {
  const [, host] = /^\[?(.+?)\]?:\d+$/.exec(address) ?? [];
  if (host === undefined) {
    return address;
  }
  if (!host.includes(":")) {
    return host;
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
