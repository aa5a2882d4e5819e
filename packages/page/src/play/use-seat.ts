// SPDX-License-Identifier: Apache-2.0
import type { WatchWorldResponse, WorldInfo } from "@dm-env-rpc/protocol/spectator";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Spectator } from "../spectator.ts";
import { Seat, type SeatState } from "./seat.ts";

/** A person's seat, if the person has one. */
export interface HeldSeat {
  readonly seat: Seat | undefined;
  readonly state: SeatState | undefined;
  take(): void;
  /** Forgets a seat that the person has left, and its recording. */
  close(): void;
}

/** The world of a seat, as its page knows it. */
export interface SeatPlace {
  readonly spectator: Spectator;
  readonly world: string;
  readonly joinToken: string | undefined;
  readonly info: WorldInfo | undefined;
  readonly frame: WatchWorldResponse | undefined;
  /** Shows an agent of the world. */
  readonly showAgent: (agent: number) => void;
}

/** Holds a seat in a world for as long as its page is shown. A reserved seat is taken at once. */
export function useSeat({
  spectator: { url, metadata },
  world,
  joinToken,
  info,
  frame,
  showAgent,
}: SeatPlace): HeldSeat {
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
  const take = (): void => {
    if (info?.perAgent) {
      // The protocol does not tell a client the number of its agent. It is the next number that appears.
      others.current = new Set(frame?.agents.map(({ agent }) => agent));
    }
    const isContinuous = info?.clock?.isContinuous ?? false;
    held.current = new Seat({ url, metadata, world, joinToken, isContinuous, onChange: setState });
    setSeat(held.current);
  };
  const isReservedSeatDue = useRef(joinToken !== undefined);
  useEffect(() => {
    if (isReservedSeatDue.current && info !== undefined) {
      isReservedSeatDue.current = false;
      take();
    }
  }, [info]);
  return {
    seat,
    state,
    take,
    close: () => {
      held.current = undefined;
      setSeat(undefined);
      setState(undefined);
    },
  };
}
