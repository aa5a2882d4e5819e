// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { joined } from "../testing/joined.ts";
import { type Script, status } from "../testing/scripted-server.ts";

/** Returns a script that answers no step until the agent leaves, like a world that waits for other agents. */
function waiting(): Script {
  let steps = 0;
  return {
    answer: ({ case: kind }, server) => {
      if (kind === "step") {
        steps++;
        return "silence";
      }
      if (kind === "leaveWorld") {
        for (; steps > 0; steps--) {
          server.stream.send(status("ABORTED", "its agent left"));
        }
      }
      return undefined;
    },
  };
}

const abandoned = {
  code: "CANCELLED",
  origin: "client",
  message: 'the agent left world "world" before this step was answered; await steps before leaving',
};

describe("behaviour 67: an agent whose step waits for others", () => {
  test("can close at once, and its step rejects", async () => {
    const { connection, environment } = await joined(waiting());
    const step = environment.step({});
    const many = environment.stepMany([{}, {}]);
    const closed = environment.close();
    await expect(step).rejects.toMatchObject(abandoned);
    await expect(many).rejects.toMatchObject(abandoned);
    await closed;
    await expect(connection.createWorld()).resolves.toBe("world");
    await connection.close();
  });

  test("has its step rejected before the server answers the leave", async () => {
    const { connection, environment } = await joined({
      answer: ({ case: kind }) =>
        kind === "step" || kind === "leaveWorld" ? "silence" : undefined,
    });
    const step = environment.step({});
    const left = connection.leave({ timeoutMs: 60_000 });
    await expect(step).rejects.toMatchObject(abandoned);
    await Promise.allSettled([left, connection.close({ timeoutMs: 0 })]);
  });

  test("need not await the abandoned step", async () => {
    const { connection, environment } = await joined(waiting());
    void environment.step({});
    await environment.close();
    await connection.close();
  });

  test("may cancel the step with a signal, and still leave", async () => {
    const { connection, environment } = await joined(waiting());
    const controller = new AbortController();
    const step = environment.step({}, { signal: controller.signal });
    controller.abort("enough");
    await expect(step).rejects.toMatchObject({ code: "CANCELLED", origin: "client" });
    await environment.close();
    await connection.close();
  });
});
