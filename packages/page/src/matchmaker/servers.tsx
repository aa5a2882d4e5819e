// SPDX-License-Identifier: Apache-2.0
import { ConnectError } from "@connectrpc/connect";
import { type Server, ServerState, ServerStateSchema } from "@dm-env-rpc/protocol/matchmaker";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatNumber } from "../format.ts";
import { agentsOf, nameOfState } from "./fleet.ts";
import type { Operator } from "./operator.ts";
import { orDash, Table } from "./table.tsx";

interface ServersProps {
  readonly servers: readonly Server[];
  readonly operator: Operator;
}

/** The servers of a matchmaker, each with a button that drains it. */
export function Servers({ servers, operator }: ServersProps) {
  const [chosen, setChosen] = useState<string>();
  return (
    <>
      <Table
        caption="Environment servers with their load"
        heads={[
          "Server",
          "State",
          "Region",
          "Address",
          "Worlds",
          "Seats",
          "Agents",
          "Types",
          "Drain",
        ]}
        empty="No server is registered."
        rows={servers.map((server) => ({
          key: server.id,
          cells: [
            server.id,
            nameOfState(ServerStateSchema, server.state),
            orDash(server.region),
            server.address,
            shareOf(server.placedWorlds, server.capacity?.maxWorlds),
            shareOf(server.placedSeats, server.capacity?.maxAgents),
            formatNumber(agentsOf([server])),
            server.worldTypes.join(", "),
            server.state === ServerState.SERVING ? (
              <button
                type="button"
                aria-label={`Drain ${server.id}`}
                onClick={() => setChosen(server.id)}
              >
                Drain
              </button>
            ) : (
              "–"
            ),
          ],
        }))}
      />
      {chosen !== undefined && (
        <DrainDialog
          key={chosen}
          serverId={chosen}
          operator={operator}
          onClose={() => setChosen(undefined)}
        />
      )}
    </>
  );
}

function shareOf(used: number, most = 0): string {
  return `${formatNumber(used)} / ${formatNumber(most)}`;
}

interface DrainDialogProps {
  readonly serverId: string;
  readonly operator: Operator;
  readonly onClose: () => void;
}

/** Asks for confirmation, then drains a server. */
function DrainDialog({ serverId, operator, onClose }: DrainDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<string>();
  const [isDraining, setDraining] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const drain = async (): Promise<void> => {
    setDraining(true);
    try {
      await operator.drain(serverId);
      dialog.current?.close();
    } catch (thrown) {
      setError(ConnectError.from(thrown).rawMessage);
      setDraining(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="drain" onClose={onClose}>
      <h2 id="drain">Drain this server?</h2>
      <p>{serverId} receives no more worlds; its current worlds continue.</p>
      {error !== undefined && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <div class="row">
        <button type="button" class="main" disabled={isDraining} onClick={() => void drain()}>
          Drain it
        </button>
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}
