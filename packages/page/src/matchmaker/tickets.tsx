// SPDX-License-Identifier: Apache-2.0
import { type TicketState, TicketStateSchema } from "@dm-env-rpc/protocol/matchmaker";
import { useEffect, useState } from "preact/hooks";
import { formatAge, formatNumber } from "../format.ts";
import { type Fleet, nameOfState, ticketStates } from "./fleet.ts";
import { Limited, maxRows } from "./limited.tsx";
import { orDash, Table } from "./table.tsx";

/** The newest tickets, in all states or in one state. */
export function Tickets({ fleet }: { readonly fleet: Fleet }) {
  const [state, setState] = useState<TicketState>();
  const nowMs = useNow();
  const count = fleet.count(state);
  return (
    <>
      <label class="field">
        State
        <select
          onChange={({ currentTarget: { value } }) =>
            setState(ticketStates.find((known) => String(known) === value))
          }
        >
          <option value="">all ({formatNumber(fleet.count(undefined))})</option>
          {ticketStates.map((known) => (
            <option key={known} value={known}>
              {nameOfState(TicketStateSchema, known)} ({formatNumber(fleet.count(known))})
            </option>
          ))}
        </select>
      </label>
      <Table
        caption="Tickets, newest first"
        heads={["Ticket", "State", "Age", "Party", "Profile", "World", "Error"]}
        empty={state === undefined ? "There is no ticket." : "No ticket is in this state."}
        rows={fleet.tickets(state, maxRows).map((row) => ({
          key: row.id,
          cells: [
            row.id,
            nameOfState(TicketStateSchema, row.state),
            row.createdMs === undefined ? "–" : formatAge(nowMs - row.createdMs),
            formatNumber(row.partySize),
            orDash(row.profile),
            orDash(row.place),
            orDash(row.error),
          ],
        }))}
      />
      <Limited count={count} />
    </>
  );
}

/** Returns the current time, and renders again each second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
