// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { Fleet, profile } from "../../testing/fleet.ts";
import { checkLabels } from "./labels.ts";

const name63 = "n".repeat(63);

it.each([
  { tier: "large" },
  { "agones.dev/fleet": "" },
  { [`a.b-c/${name63}`]: name63 },
  { "dm-env-rpc/X_1.y": "A_b.c-9" },
])("the label %j is accepted", (labels) => {
  expect(() => checkLabels("labels", labels)).not.toThrow();
});

it.each([
  [
    { "": "x" },
    'labels: expected keys like "tier" or "example.org/tier": 1 to 63 letters, digits, "-", "_" or ".", starting and ending with a letter or digit, received ""; rename the key',
  ],
  [{ [`${name63}n`]: "x" }, "labels: expected keys"],
  [{ "-tier": "x" }, "labels: expected keys"],
  [{ "/tier": "x" }, "labels: expected keys"],
  [{ "Agones.dev/tier": "x" }, "labels: expected keys"],
  [
    { tier: "with space" },
    'labels "tier": expected an empty value or one like "large-2": up to 63 letters, digits, "-", "_" or ".", starting and ending with a letter or digit, received "with space"; change the value',
  ],
  [{ tier: `${name63}n` }, 'labels "tier": expected an empty value'],
  [{ tier: "x-" }, 'labels "tier": expected an empty value'],
])("the label %j is refused", (labels, message) => {
  expect(() => checkLabels("labels", labels)).toThrow(message);
});

it("a server has at most 100 labels", () => {
  const labels = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${index}`, "x"]));
  expect(() => checkLabels("labels", labels(100))).not.toThrow();
  expect(() => checkLabels("labels", labels(101))).toThrow(
    "labels: expected at most 100, received 101",
  );
});

it("a server or a profile with a malformed label is refused", async () => {
  await using fleet = await Fleet.open();
  await expect(fleet.serve("a", { labels: { tier: "?" } })).rejects.toThrow('labels "tier"');
  await expect(
    fleet.admin.putProfile({ profile: profile({ serverLabels: { "?": "x" } }) }),
  ).rejects.toThrow("server_labels: expected keys");
});

it("operators read the labels that a server registered with", async () => {
  await using fleet = await Fleet.open();
  await fleet.serve("a", { labels: { tier: "large" } });
  await fleet.serve("b");
  const { servers } = await fleet.admin.listServers({});
  expect(servers.map(({ labels }) => labels)).toEqual([{ tier: "large" }, {}]);
});
