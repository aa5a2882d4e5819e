// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { describe, expect, it } from "vitest";
import { pairs } from "../../testing/pairs.ts";
import { counting, serveCounting } from "../../testing/world-server.ts";
import { joinMatch, matchmakerClient } from "../client/index.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import type { RegistrationEvent } from "./register.ts";

describe("a server that is registered", () => {
  it("lets in the agents that were assigned, each once and into its own world, and nobody else", async () => {
    await using served = await serveMatchmaker({ profiles: [pairs] });
    await using registered = await serveCounting(served.url);
    await registered.registration.registered;
    const matchmaker = matchmakerClient(served.url);
    const tickets = await Promise.all(Array.from({ length: 4 }, () => matchmaker.findMatch()));
    const [one] = tickets;
    const sameWorld = tickets.filter(({ worldName }) => worldName === one?.worldName);
    const [other] = tickets.filter(({ worldName }) => worldName !== one?.worldName);
    const [mine, partner] = sameWorld;
    if (mine === undefined || partner === undefined || other === undefined) {
      throw new Error("two matches of two were expected");
    }
    const { url } = registered.server;
    const { worldName } = mine;
    await using stranger = await connect(url);
    await expect(stranger.join(worldName, { as: counting })).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
      message: expect.stringMatching(/expected a join token, received none/),
    });
    await expect(joinMatch({ ...other, worldName }, { as: counting })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringMatching(/not for "counting-\d"/),
    });
    await expect(
      joinMatch({ ...mine, joinToken: `${mine.joinToken}x` }, { as: counting }),
    ).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    await using first = await joinMatch(mine, { as: counting });
    await expect(joinMatch(mine, { as: counting })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringMatching(/has been taken/),
    });
    // The token as a join setting, for those who cannot send metadata.
    const settings = { join_token: partner.joinToken };
    await using second = await stranger.join(worldName, { as: counting, settings });
    const [began] = await Promise.all([first.reset(), second.reset()]);
    expect(began.observation.total).toBe(100);
  });

  it("shows its token to a matchmaker that asks who calls, and says what is wrong with another", async () => {
    await using served = await serveMatchmaker({
      authorize: ({ metadata }) =>
        metadata.get("authorization") === "Bearer open-sesame" ? ["operator"] : undefined,
    });
    let refuse = (_event: RegistrationEvent): void => {};
    const refused = new Promise<RegistrationEvent>((resolve) => {
      refuse = resolve;
    });
    await using _stranger = await serveCounting(served.url, { onEvent: refuse });
    expect(await refused).toMatchObject({
      kind: "failed",
      error: {
        message: expect.stringMatching(
          /\[unauthenticated\] the matchmaker does not know you; RegistryService takes a caller of the role "operator"/,
        ),
      },
    });
    await using registered = await serveCounting(served.url, { token: "open-sesame" });
    await registered.registration.registered;
  });
});
