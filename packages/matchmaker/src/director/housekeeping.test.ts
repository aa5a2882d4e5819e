// SPDX-License-Identifier: Apache-2.0

import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { House } from "../../testing/house.ts";
import { startMs } from "../../testing/start-ms.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { Store } from "../store/store.ts";

it("tickets that waited too long are reported once, when that is committed", async () => {
  const time = manualTime(startMs);
  const inner = memoryStore({ time });
  let rival = async (): Promise<unknown> => undefined;
  const store: Store = {
    ...inner,
    async commit(changes, options) {
      if (options?.lease !== undefined) {
        await rival();
      }
      return await inner.commit(changes, options);
    },
  };
  await using house = await House.open({ time, store, settings: { maxWaitMs: 60_000 } });
  const ids = await house.tickets(3);
  const [cancelled = "", ...late] = ids;
  time.advance(61_000);
  rival = async () => {
    rival = async () => undefined;
    await house.frontend.cancelTicket({ ticketId: cancelled });
  };
  const ended = () =>
    house.events.flatMap((event) => (event.kind === "ticket-ended" ? [event.ticketId] : []));
  await house.matchmaker.tick();
  const beforeCommit = ended();
  expect(await house.states(ids)).toEqual(["CANCELLED", "WAITING", "WAITING"]);
  expect(beforeCommit).toEqual([cancelled]);
  await house.pass(2_000);
  expect(await house.states(ids)).toEqual(["CANCELLED", "FAILED", "FAILED"]);
  expect(ended()).toEqual([cancelled, ...late]);
});
