// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { publicMessageOf } from "./public-message.ts";

describe("the message of an author's error, for agents", () => {
  it.each([
    [
      "ENOENT: no such file or directory, open '/srv/my game/secret.json'",
      "ENOENT: no such file or directory, open '<path>'",
    ],
    [
      "Cannot find module '/srv/a.js' imported from /srv/app/dist/world.js:10:3",
      "Cannot find module '<path>' imported from <path>",
    ],
    ["cannot read /home/alice/.ssh/id_rsa: denied.", "cannot read <path>: denied."],
    ["open C:\\Users\\alice\\game.db", "open <path>"],
    ["open \\\\server\\share\\game.db (busy)", "open <path> (busy)"],
    ['in "file:///srv/game/world.ts"', 'in "<path>"'],
    ["at file:///srv/game/world.ts:3:1", "at <path>"],
    ["config=/etc/game.conf, mode=ro", "config=<path>, mode=ro"],
    [
      "boom\n    at step (/srv/game/world.ts:3:1)\n    at node:internal/main:2:3\nstill the message",
      "boom\nstill the message",
    ],
  ])("is redacted: %s", (message, expected) => {
    expect(publicMessageOf(new Error(message))).toBe(expected);
  });

  it.each([
    "expected 3/4, received 1 / 2",
    "see https://example.org/docs/errors#paths or http://127.0.0.1:8980/",
    'the property "a/b" of type text/plain is <step>/min and/or ~/x',
    'unexpected token "\\n" in ./levels/one.json',
    "expected at most\nat least 3",
  ])("is left as it is: %s", (message) => {
    expect(publicMessageOf(new Error(message))).toBe(message);
  });

  it("takes time in proportion to its length", () => {
    for (const part of ["/.", "\n ", "'/a", "/a:", "\\", "file:", " /", "/"]) {
      // The time of the processor, because a machine that stands still adds to the time of the clock.
      const before = process.cpuUsage();
      publicMessageOf(part.repeat(200_000));
      expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
    }
  });
});
