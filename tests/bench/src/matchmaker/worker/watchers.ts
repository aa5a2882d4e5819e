// SPDX-License-Identifier: Apache-2.0
// The process of the watchers: it creates tickets, watches each until it is assigned, and reports when all
// watches are open, and when the last watch has received its assignment: node watchers.js ADDRESS TICKETS
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { FrontendService, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { callAll } from "./fleet.ts";

const streamsPerConnection = 100;
const [baseUrl = "", count = "0"] = process.argv.slice(2);
const tickets = Number(count);
const clients = Array.from({ length: Math.ceil(tickets / streamsPerConnection) }, () =>
  createClient(FrontendService, createGrpcTransport({ baseUrl })),
);
let told = 0;
let opened = (): void => {};
const all: Promise<void>[] = [];

async function watch(number: number, isOpen: () => void): Promise<void> {
  const client = clients[number % clients.length] as (typeof clients)[number];
  const { ticket } = await client.createTicket({});
  for await (const update of client.watchTicket({ ticketId: ticket?.id ?? "" })) {
    isOpen();
    if (update.ticket?.state === TicketState.ASSIGNED) {
      told += 1;
      return;
    }
  }
}

await callAll(
  tickets,
  (number) =>
    new Promise<void>((resolve, reject) => {
      opened = resolve;
      const watching = watch(number, resolve);
      watching.catch(reject);
      all.push(watching);
    }),
);
opened();
process.send?.("open");
await Promise.all(all);
process.send?.(told, () => process.exit());
