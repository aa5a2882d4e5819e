// SPDX-License-Identifier: Apache-2.0
import type { WatchWorldResponse, WorldInfo } from "@dm-env-rpc/protocol/spectator";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Spectator } from "../spectator.ts";
import { Seat, type SeatState } from "./seat.ts";

/** A person's seat, if there is one. */
export interface HeldSeat {
  readonly seat: Seat | undefined;
  readonly state: SeatState | undefined;
  take(): void;
  /** Forgets a seat that was left, with its recording. */
  close(): void;
}

/** Holds a seat in a world for as long as its page is shown. */
export function useSeat(
  { url, metadata }: Spectator,
  world: string,
  info: WorldInfo | undefined,
  frame: WatchWorldResponse | undefined,
  showAgent: (agent: number) => void,
): HeldSeat {
  const [state, setState] = useState<SeatState>();
  const [seat, setSeat] = useState<Seat>();
  const held = useRef<Seat | undefined>(undefined);
  /** Numbers of the agents that were present before this one joined; undefined once its own number is known. */
  const others = useRef<ReadonlySet<number> | undefined>(undefined);
  useEffect(() => () => held.current?.leave(), []);
  useEffect(() => {
    if (others.current === undefined || frame === undefined) {
      return;
    }
    const own = frame.agents.find(({ agent }) => others.current?.has(agent) === false);
    if (own !== undefined) {
      others.current = undefined;
      showAgent(own.agent);
    }
  }, [frame, showAgent]);
  return {
    seat,
    state,
    take: () => {
      if (info?.perAgent) {
        // The protocol does not tell a client its agent number: it is the next one that appears.
        others.current = new Set(frame?.agents.map(({ agent }) => agent));
      }
      const isContinuous = info?.clock?.isContinuous ?? false;
      held.current = new Seat({ url, metadata, world, isContinuous, onChange: setState });
      setSeat(held.current);
    },
    close: () => {
      held.current = undefined;
      setSeat(undefined);
      setState(undefined);
    },
  };
}
