// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { formatTime } from "../format.ts";
import type { Change } from "./fleet.ts";
import { Table } from "./table.tsx";

/** The latest changes of a matchmaker's records. */
export function Changes({ changes }: { readonly changes: readonly Change[] }) {
  const [frozen, setFrozen] = useState<readonly Change[]>();
  const shown = frozen ?? changes;
  return (
    <>
      <button
        type="button"
        aria-pressed={frozen !== undefined}
        onClick={() => setFrozen(frozen === undefined ? changes : undefined)}
      >
        {frozen === undefined ? "Pause" : "Go on"}
      </button>
      <Table
        caption="Latest changes, newest first. After connecting, each existing record is listed once."
        heads={["Time", "Record", "Name", "State"]}
        empty="Nothing has changed yet."
        rows={shown.map(({ number, timeMs, kind, id, text }) => ({
          key: number,
          cells: [formatTime(timeMs), kind, id, text],
        }))}
      />
    </>
  );
}
