// SPDX-License-Identifier: Apache-2.0

import { expect, test } from "vitest";
import { errorOf } from "../testing/error-of.ts";
import { isLoopback, joinHostPort, parseAddress } from "./address.ts";

test.each([
  ["localhost:8980", false, "localhost", 8980, "localhost:8980"],
  ["127.0.0.1:80", false, "127.0.0.1", 80, "127.0.0.1:80"],
  ["http://example.org", false, "example.org", 80, "example.org:80"],
  ["https://example.org", true, "example.org", 443, "example.org:443"],
  ["https://example.org:8980/", true, "example.org", 8980, "example.org:8980"],
  ["[::1]:8980", false, "::1", 8980, "[::1]:8980"],
  ["http://[2001:db8::1]:1", false, "2001:db8::1", 1, "[2001:db8::1]:1"],
  [" localhost:8980 ", false, "localhost", 8980, "localhost:8980"],
  ["a-host.local:443", false, "a-host.local", 443, "a-host.local:443"],
])("the address %j is parsed", (text, secure, host, port, authority) => {
  const address = parseAddress(text);
  expect(address).toEqual({
    carrier: "http2",
    secure,
    host,
    port,
    authority,
    url: `${secure ? "https" : "http"}://${authority}`,
  });
});

test.each([
  ["unix:/run/env.sock", "/run/env.sock"],
  ["unix:///run/env.sock", "/run/env.sock"],
  ["unix:env.sock", "env.sock"],
])("the address %j names a Unix domain socket", (text, path) => {
  expect(parseAddress(text)).toEqual({
    carrier: "http2",
    secure: false,
    host: "localhost",
    port: 0,
    path,
    authority: `unix:${path}`,
    url: `unix:${path}`,
  });
  expect(isLoopback(text)).toBe(true);
});

test.each([
  ["ws://localhost:8980", false, 8980, "ws://localhost:8980"],
  ["ws://localhost", false, 80, "ws://localhost:80"],
  ["wss://localhost", true, 443, "wss://localhost:443"],
])("the address %j names a WebSocket", (text, secure, port, url) => {
  expect(parseAddress(text)).toMatchObject({ carrier: "websocket", secure, port, url });
});

test.each([
  "",
  "localhost",
  "localhost:",
  ":8980",
  "localhost:port",
  "localhost:99999",
  "::1:8980",
  "ftp://localhost:1",
  "http://localhost:1/path",
  "http://user@localhost:1",
  "localhost:1?x=y",
  "unix:",
  "unix://host/path",
])("the address %j is refused with the expected forms", (text) => {
  let error: unknown;
  try {
    parseAddress(text);
  } catch (thrown) {
    error = thrown;
  }
  expect(errorOf(error).code).toBe("INVALID_ARGUMENT");
  expect(errorOf(error).message).toContain('expected "host:port"');
  expect(errorOf(error).message).toContain(JSON.stringify(text));
});

test("isLoopback is true for hosts that only this machine can reach", () => {
  for (const host of ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"]) {
    expect(isLoopback(host), host).toBe(true);
  }
  for (const host of ["0.0.0.0", "::", "192.168.0.1", "example.org", "127.0.0.1.nip.io", ""]) {
    expect(isLoopback(host), host).toBe(false);
  }
});

test("joinHostPort puts an IPv6 host in brackets", () => {
  expect(joinHostPort("::1", 1)).toBe("[::1]:1");
  expect(joinHostPort("localhost", 1)).toBe("localhost:1");
});
