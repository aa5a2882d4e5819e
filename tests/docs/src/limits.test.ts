// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { defaultSettings } from "@dm-env-rpc/matchmaker";
import { defaultRelayLimits } from "@dm-env-rpc/relay";
import { defaultLimits } from "@dm-env-rpc/server";
import { ListenLimitTable } from "@dm-env-rpc/transport";
import { expect, it } from "vitest";
import { root } from "./pages.ts";

/** The limits of a relay that no other listener has. */
const relayOnly = Object.fromEntries(
  Object.entries(defaultRelayLimits).filter(([name]) => !(name in new ListenLimitTable())),
);

it.each([
  ["docs/run-a-fleet.md", defaultLimits],
  ["packages/relay/README.md", relayOnly],
  ["packages/matchmaker/README.md", defaultSettings],
])("%s tells every default", (path, defaults) => {
  const rows = readFileSync(root + path, "utf8").matchAll(
    /^\| (`\w+`(?:, `\w+`)*) \| ([\d,^]+(?: [KMG]iB)?) \|/gm,
  );
  const told = [...rows].flatMap(([, names = "", value = ""]) =>
    [...names.matchAll(/\w+/g)].map(([name]) => [name, numberOf(value)] as const),
  );
  expect(Object.fromEntries(told)).toEqual(defaults);
});

it.each([
  {
    paths: ["packages/transport/src/limits/listen-limits.ts", "packages/server/src/host/limits.ts"],
    defaults: defaultLimits,
  },
  {
    paths: ["packages/transport/src/limits/listen-limits.ts", "packages/relay/src/limits.ts"],
    defaults: defaultRelayLimits,
  },
  { paths: ["packages/matchmaker/src/model/settings.ts"], defaults: defaultSettings },
])("the docstrings of $paths tell the defaults", ({ paths, defaults }) => {
  const fields = paths
    .map((path) => readFileSync(root + path, "utf8"))
    .join("\n")
    .matchAll(/\bDefault ([^.]+)\.\s*\*\/\s*(?:override )?readonly (\w+): Limit =/g);
  const told = [...fields].map(([, value = "", name = ""]) => [name, numberOf(value)] as const);
  expect(Object.fromEntries(told)).toEqual(defaults);
});

/** Parses a number such as `10,000`, `2^24` or `64 MiB`. */
function numberOf(text: string): number {
  const [, digits = "", exponent = "1", prefix = ""] =
    /^([\d,]+)(?:\^(\d+))?(?: ([KMG])iB)?$/.exec(text) ?? [];
  const factor = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }[prefix] ?? 1;
  return Number(digits.replaceAll(",", "")) ** Number(exponent) * factor;
}
