// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { AgentEvent, WorldEvent } from "./events.ts";
import { Ledger } from "./ledger.ts";

const agentEvent = (
  is: AgentEvent["is"],
  more: Partial<Pick<AgentEvent, "agent" | "turn" | "at" | "why" | "address">> = {},
): AgentEvent => ({ at: 0, agent: "go-1", turn: 1, is, ...more });

const joined = (ticket: string, agents: number): WorldEvent => ({
  is: "joined",
  world: "w",
  agents,
  seats: 2,
  ticket,
});

describe("the ledger of the soak", () => {
  it("accepts a turn that was played to its end", () => {
    const ledger = new Ledger();
    for (const is of ["asked", "assigned", "began", "finished"] as const) {
      ledger.takeAgent(agentEvent(is));
    }
    ledger.close();
    expect(ledger.violations).toEqual([]);
    expect(ledger.fates.finished).toBe(1);
  });

  it("knows the longest wait for a first step, in all and during each fault", () => {
    const ledger = new Ledger();
    const wait = (turn: number, forMs: number): void => {
      ledger.takeAgent(agentEvent("asked", { turn, at: turn * 10_000 }));
      ledger.takeAgent(agentEvent("began", { turn, at: turn * 10_000 + forMs }));
    };
    wait(1, 500);
    ledger.during("a kill");
    wait(2, 3_000);
    wait(3, 1_000);
    ledger.during("a flood");
    wait(4, 2_000);
    expect(
      ["a kill", "a flood", "a pause"].map((fault) => ledger.longestWaitDuringMs(fault)),
    ).toEqual([3_000, 2_000, 0]);
    expect(ledger.longestWaitMs).toBe(3_000);
  });

  it("reports a ticket without a fate", () => {
    const ledger = new Ledger();
    ledger.takeAgent(agentEvent("asked"));
    ledger.close();
    expect(ledger.violations).toEqual(["turn 1 of go-1 has no end"]);
  });

  it("reports an agent whose ticket is assigned again while it plays", () => {
    const ledger = new Ledger();
    ledger.takeAgent(agentEvent("asked"));
    ledger.takeAgent(agentEvent("moved", { why: "waiting" }));
    expect(ledger.violations).toEqual([expect.stringMatching(/assigned again while it played/)]);
  });

  it("reports a ticket that joins two worlds, and a world with more agents than seats", () => {
    const ledger = new Ledger();
    ledger.takeWorld(joined("a", 1));
    ledger.takeWorld(joined("a", 1));
    ledger.takeWorld(joined("b", 3));
    expect(ledger.violations).toEqual([
      expect.stringMatching(/ticket a joined twice/),
      expect.stringMatching(/of 2 seats had 3 agents/),
    ]);
    expect(ledger.fullest).toEqual({ agents: 3, seats: 2 });
  });

  it("reports a loss only if no fault explains it", () => {
    const ledger = new Ledger();
    ledger.during("a kill", ({ address }) => address === "killed");
    for (const [turn, address] of ["killed", "other"].entries()) {
      ledger.takeAgent(agentEvent("asked", { turn }));
      ledger.takeAgent(agentEvent("lost", { turn, address, why: "cut" }));
    }
    expect(ledger.violations).toEqual(["a kill: turn 1 of go-1, at other, was lost: cut"]);
    expect(ledger.explainedBy("a kill")).toBe("1 lost");
  });

  it("reports when every agent has begun again, and the longest time without a beginning", async () => {
    const ledger = new Ledger();
    for (const agent of ["go-1", "go-2"]) {
      ledger.takeAgent(agentEvent("asked", { agent }));
      ledger.takeAgent(agentEvent("began", { agent, at: 10 }));
    }
    const again = ledger.allBegan(20, Date.now() + 60_000);
    ledger.takeAgent(agentEvent("began", { at: 25 }));
    expect(ledger.missing(20)).toEqual(["go-2"]);
    ledger.takeAgent(agentEvent("began", { agent: "go-2", at: 60 }));
    expect(await again).toBe(60);
    expect(ledger.longestPauseMs(20, 60)).toBe(35);
    expect(await ledger.allBegan(70, 0)).toBeUndefined();
  });
});
