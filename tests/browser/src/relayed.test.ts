// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { serveRelay } from "@dm-env-rpc/relay";
import { bundle, installedBrowsers, openScript } from "@dm-env-rpc/tests-processes/browser";
import { describe, expect, test } from "vitest";

const token = "token-of-the-page";

/** A page that dials the relay in its address and serves a world. */
const served = `
  import { createEnvironmentServer, defineWorld, dialOut, lockstep } from "@dm-env-rpc/server";
  import { t } from "@dm-env-rpc/tensor-codec";

  const race = defineWorld({
    name: "race",
    actions: { stride: t.int8({ min: 0, max: 3 }) },
    observations: { position: t.int32(), reward: t.float32() },
    clock: lockstep(),
    create() {
      const positions = new Map();
      const position = (agent) => positions.get(agent) ?? 0;
      return {
        start: () => positions.clear(),
        step(actions) {
          for (const [agent, { stride = 0 }] of actions) {
            positions.set(agent, position(agent) + stride);
          }
        },
        status: (agent) => (position(agent) >= 20 ? "terminated" : "running"),
        observe: { position, reward: (agent) => (position(agent) >= 20 ? 1 : 0) },
      };
    },
  });
  const server = createEnvironmentServer({ worlds: [race], singleWorld: true, premade: [{}] });
  globalThis.dial = async (relay, token) => {
    const { program, address } = await dialOut(server, { relay, token });
    return { program, address };
  };
`;

declare global {
  var dial: (relay: string, token: string) => Promise<{ program: string; address: string }>;
}

describe.each(installedBrowsers)("a world in a page of $name, behind a relay", (browser) => {
  test("behaviour 76: is a world like any other, until its tab is killed", async () => {
    const { script } = await bundle(served, import.meta.dirname);
    await using opened = await openScript(browser, script, "dial");
    const { page, origin } = opened;
    await using relay = await serveRelay({
      programs: [{ name: "game", token }],
      allowedOrigins: [origin],
      // A page that stalls with the machine is not lost.
      limits: { programPingMs: 60_000 },
    });
    const { program, address } = await page.evaluate(
      (to, secret) => globalThis.dial(to, secret),
      relay.url.replace("http", "ws"),
      token,
    );
    expect(program).toBe("game");

    const connections = [await connect(address), await connect(address.replace("http", "ws"))];
    const agents = await Promise.all(connections.map((connection) => connection.join("")));
    let steps = await Promise.all(agents.map((agent) => agent.reset()));
    let ticks = 0;
    while (steps.every((step) => !step.last())) {
      steps = await Promise.all(agents.map((agent, i) => agent.step({ stride: 2 - i })));
      ticks += 1;
    }
    expect(ticks).toBe(10);
    expect(steps.map(({ reward, observation }) => [reward, observation["position"]])).toEqual([
      [1, 20],
      [0, 10],
    ]);

    await Promise.all(agents.map((agent) => agent.reset()));
    const lost = expect(agents[0]?.step({ stride: 1 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
    await page.close();
    await lost;
    await expect(agents[1]?.step({ stride: 1 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await Promise.all(connections.map((connection) => connection.close()));
  });

  test("is refused from a page of another origin, and with a wrong token", async () => {
    const { script } = await bundle(served, import.meta.dirname);
    await using opened = await openScript(browser, script, "dial");
    const { page, origin } = opened;
    await using closed = await serveRelay({ programs: [{ name: "game", token }] });
    await using relay = await serveRelay({
      programs: [{ name: "game", token }],
      allowedOrigins: [origin],
    });
    const refusal = (to: string, secret: string): Promise<string> =>
      page.evaluate(
        (url, given) =>
          globalThis.dial(url, given).then(
            () => "accepted",
            (error: unknown) => String((error as { code?: unknown }).code),
          ),
        to.replace("http", "ws"),
        secret,
      );
    expect(await refusal(closed.url, token)).toBe("PERMISSION_DENIED");
    expect(await refusal(relay.url, "token-of-somebody-else")).toBe("UNAUTHENTICATED");
  });
});
