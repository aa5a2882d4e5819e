// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile } from "@dm-env-rpc/protocol/matchmaker";
import { formatNumber } from "../format.ts";
import { orDash, Table } from "./table.tsx";

/** The match profiles. */
export function Profiles({ profiles }: { readonly profiles: readonly MatchProfile[] }) {
  return (
    <Table
      caption="Match profiles"
      heads={["Profile", "Function", "Pools", "World", "Seats", "Backfill"]}
      empty="There is no profile, so no ticket is matched."
      rows={profiles.map(({ name, matchFunction, pools, worldType, seats, backfill }) => ({
        key: name,
        cells: [
          name,
          matchFunction?.function.case ?? "–",
          orDash(pools.map((pool) => pool.name).join(", ")),
          worldType,
          seats === 0 ? "–" : formatNumber(seats),
          backfill ? "yes" : "no",
        ],
      }))}
    />
  );
}
