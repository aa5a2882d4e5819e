// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { networkOf } from "./network-of.ts";

it.each([
  ["192.0.2.7:4711", "192.0.2.7"],
  ["[::ffff:192.0.2.7]:4711", "192.0.2.7"],
  ["[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2::/64"],
  ["[2001:db8:1:2::6]:4711", "2001:db8:1:2::/64"],
  ["[2001:db8::6]:4711", "2001:db8:0:0::/64"],
  ["[::1]:4711", "0:0:0:0::/64"],
  ["[fe80::1%eth0]:4711", "fe80:0:0:0::/64"],
  ["game.example:4711", "game.example"],
  ["unix:", "unix:"],
  ["memory", "memory"],
])("the network of the peer at %s is %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});
