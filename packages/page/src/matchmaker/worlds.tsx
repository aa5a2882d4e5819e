// SPDX-License-Identifier: Apache-2.0
import type { Server } from "@dm-env-rpc/protocol/matchmaker";
import { formatNumber } from "../format.ts";
import { Limited, maxRows } from "./limited.tsx";
import { Table } from "./table.tsx";

/** The worlds of all servers, as the servers last reported them. */
export function Worlds({ servers }: { readonly servers: readonly Server[] }) {
  const all = servers.flatMap(({ id, address, worlds }) =>
    worlds.map(({ name, type, agents, sequences }) => ({
      key: `${id}/${name}`,
      cells: [name, type, id, address, formatNumber(agents), formatNumber(sequences)],
    })),
  );
  return (
    <>
      <Table
        caption="Worlds with their agents, as their servers last reported them"
        heads={["World", "Type", "Server", "Address", "Agents", "Sequences"]}
        empty="No server has a world."
        rows={all.slice(0, maxRows)}
      />
      <Limited count={all.length} />
    </>
  );
}
