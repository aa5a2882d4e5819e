// SPDX-License-Identifier: Apache-2.0
import { isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { decodeJwt, decodeProtectedHeader, importJWK, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { createSeats } from "../registration/seats.ts";
import { tokenIssuer } from "./issuer.ts";
import { algorithm, generateSigningKey, type SigningKey } from "./keys.ts";
import { earlierMs, maxEarlierKeys, PublicKeys } from "./public-keys.ts";
import { issuerName, tokenVerifier } from "./verifier.ts";

const nowMs = Date.UTC(2030, 0, 1);

async function setup({ serverId = "server", address = "server.test:1", at = nowMs } = {}) {
  const key = await generateSigningKey();
  const issuer = await tokenIssuer(() => [key]);
  let now = at;
  let seat = 0;
  const verifier = tokenVerifier({
    serverId: () => serverId,
    address,
    jwks: () => issuer.jwks,
    now: () => now,
  });
  return {
    key,
    issuer,
    verifier,
    seats: createSeats(
      verifier,
      () => now,
      () => {},
    ),
    token: (over = {}) =>
      issuer.joinToken({
        ticketId: "ticket",
        partySize: 1,
        matchId: "match",
        part: { team: "red", role: "scout", data: { level: 3 } },
        serverId: "server",
        address: "server.test:1",
        worldName: "world",
        seatId: `seat-${++seat}`,
        nowMs,
        expiresMs: nowMs + 30_000,
        ...over,
      }),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

/** Signs a token as another release of the matchmaker could: a claim that is `undefined` is left out. */
const signed = async (key: SigningKey, claims: object): Promise<string> =>
  await new SignJWT({
    ...{ iss: issuerName, aud: "server", sub: "ticket", jti: "seat", exp: nowMs / 1_000 + 60 },
    ...{ role: "agent", world: "world", address: "server.test:1" },
    ...claims,
  })
    .setProtectedHeader({ alg: algorithm, kid: String(key.kid) })
    .sign(await importJWK(key, algorithm));

const refused = (code: string, message: RegExp) => (error: unknown) =>
  isDmEnvRpcError(error) && error.code === code && message.test(error.message);

describe("a join token", () => {
  it("carries the trace of its ticket, if it has one", async () => {
    const { key, verifier, token } = await setup();
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    expect(await verifier.join(await token({ traceparent }), "world")).toMatchObject({
      traceparent,
    });
    const untraced = await token();
    expect(decodeJwt(untraced)).not.toHaveProperty("traceparent");
    expect(await verifier.join(untraced, "world")).not.toHaveProperty("traceparent");
    const malformed = await signed(key, { traceparent: 1 });
    expect(await verifier.join(malformed, "world")).not.toHaveProperty("traceparent");
  });

  it("admits the agent of its ticket to its world", async () => {
    const { verifier, token } = await setup();
    expect(await verifier.join(await token(), "world")).toEqual({
      ticketId: "ticket",
      partySize: 1,
      worldName: "world",
      seatId: "seat-1",
      matchId: "match",
      part: { team: "red", role: "scout", data: { level: 3 } },
      expiresMs: nowMs + 30_000,
    });
  });

  it("is refused by a server that is registered with another address, and so is an operator token", async () => {
    const { issuer, token } = await setup();
    const thief = await setup({ address: "thief.test:1" });
    const mine = await token();
    const operator = await issuer.operatorToken(
      { id: "server", address: "server.test:1" },
      nowMs,
      nowMs + 1_000,
    );
    const verifier = tokenVerifier({
      serverId: () => "server",
      address: "thief.test:1",
      jwks: () => issuer.jwks,
      now: () => nowMs,
    });
    const elsewhere = refused(
      "PERMISSION_DENIED",
      /expected a token for the address that this server registered, received a token for another/,
    );
    await expect(verifier.join(mine, "world")).rejects.toSatisfy(elsewhere);
    await expect(verifier.operator(operator)).rejects.toSatisfy(elsewhere);
    await expect(thief.verifier.operator(operator)).rejects.toSatisfy(
      refused("UNAUTHENTICATED", /a token that the matchmaker issued/),
    );
  });

  it("is refused after it has expired by the matchmaker's time", async () => {
    const { verifier, token, pass } = await setup();
    const mine = await token();
    pass(30_001);
    await expect(verifier.join(mine, "world")).rejects.toSatisfy(
      refused("UNAUTHENTICATED", /expired at 2030-01-01T00:00:30.*ask for another assignment/),
    );
  });

  it("is refused for another world, for another server, and from another signer", async () => {
    const { verifier, token } = await setup();
    const stranger = await setup();
    await expect(verifier.join(await token(), "other")).rejects.toSatisfy(
      refused(
        "PERMISSION_DENIED",
        /expected a token for the world "other", received a token for "world"/,
      ),
    );
    await expect(verifier.join(await token({ serverId: "old" }), "world")).rejects.toSatisfy(
      refused("PERMISSION_DENIED", /for another server, or for an earlier run/),
    );
    await expect(verifier.join(await stranger.token(), "world")).rejects.toSatisfy(
      refused("UNAUTHENTICATED", /a token that the matchmaker issued/),
    );
  });

  it.each([
    ["no token", undefined],
    ["an empty token", ""],
    ["text that is not a token", "let me in"],
    ["a token without a signature", "eyJhbGciOiJub25lIn0.eyJyb2xlIjoiYWdlbnQifQ."],
  ])("is required: a join with %s fails", async (_, token) => {
    const { verifier } = await setup();
    const message = token
      ? /a token that the matchmaker issued/
      : /expected a join token, received none/;
    await expect(verifier.join(token, "world")).rejects.toSatisfy(
      refused("UNAUTHENTICATED", message),
    );
  });

  it.each([
    ["issuer", { iss: "another issuer" }, "UNAUTHENTICATED", /unexpected "iss"/],
    ["role", { role: "operator" }, "PERMISSION_DENIED", /received a token of role "operator"/],
  ] as const)(
    "is refused when the matchmaker's key signed it for another %s",
    async (_, claims, code, message) => {
      const { verifier, key } = await setup();
      const token = await signed(key, claims);
      await expect(verifier.join(token, "world")).rejects.toSatisfy(refused(code, message));
    },
  );

  it.each([
    ["sub", "UNAUTHENTICATED", /missing required "sub"/],
    ["exp", "UNAUTHENTICATED", /missing required "exp"/],
    ["role", "UNAUTHENTICATED", /missing required "role"/],
    ["jti", "PERMISSION_DENIED", /expected an agent's join token/],
  ] as const)("is refused without the claim %s", async (claim, code, message) => {
    const { verifier, key } = await setup();
    const token = await signed(key, { [claim]: undefined });
    await expect(verifier.join(token, "world")).rejects.toSatisfy(refused(code, message));
  });

  it("of an earlier release, without a match or a part, admits its agent", async () => {
    const { verifier, key } = await setup();
    expect(await verifier.join(await signed(key, {}), "world")).toMatchObject({
      matchId: "",
      part: { team: "", role: "", data: {} },
    });
  });

  it("of a party names the party's size, and the token of a single agent names no size", async () => {
    const { verifier, token } = await setup();
    const [party, single] = [await token({ partySize: 3 }), await token({ partySize: 1 })];
    expect(await verifier.join(party, "world")).toMatchObject({ partySize: 3 });
    expect(decodeJwt(party)["party"]).toBe(3);
    expect(await verifier.join(single, "world")).toMatchObject({ partySize: 1 });
    expect(decodeJwt(single)).not.toHaveProperty("party");
  });

  it("that has expired is valid only for the agent that had its seat before", async () => {
    const { verifier, token, pass } = await setup();
    const [mine, other] = [await token(), await token()];
    pass(30_001);
    const isHeld = (seatId: string): boolean => seatId === "seat-1";
    expect(await verifier.join(mine, "world", isHeld)).toMatchObject({ seatId: "seat-1" });
    await expect(verifier.join(other, "world", isHeld)).rejects.toSatisfy(
      refused("UNAUTHENTICATED", /expired/),
    );
  });

  it("names the key that signed it, if the key has an id", async () => {
    const { issuer, key, token } = await setup();
    expect(decodeProtectedHeader(await token())).toEqual({ alg: algorithm, kid: key.kid });
    const operator = await issuer.operatorToken({ id: "s", address: "s:1" }, nowMs, nowMs + 1_000);
    expect(decodeJwt(operator)).toMatchObject({ sub: "matchmaker", aud: "s", address: "s:1" });
    const { kid: _, ...nameless } = key;
    const plain = await tokenIssuer(() => [nameless]);
    const unnamed = await plain.operatorToken({ id: "s", address: "s:1" }, nowMs, nowMs + 1_000);
    expect(decodeProtectedHeader(unnamed)).toEqual({ alg: algorithm });
  });

  it.each<[string, (key: SigningKey) => SigningKey, string]>([
    ["another curve", (key) => ({ ...key, crv: "Ed448" }), "OKP Ed448"],
    ["another kind of key", (key) => ({ ...key, kty: "EC" }), "EC Ed25519"],
    ["no public part", ({ x: _, ...key }) => key, "one without its public part"],
    ["no private part", ({ d: _, ...key }) => key, "one without its private part"],
  ])("cannot be signed by a key with %s", async (_, change, received) => {
    const key = change(await generateSigningKey());
    await expect(tokenIssuer(() => [key])).rejects.toThrow(
      `signing key: expected a private JWK of Ed25519, received ${received};`,
    );
  });

  it("cannot be signed without a key", async () => {
    await expect(tokenIssuer(() => [])).rejects.toThrow(
      /signing keys: expected at least one key, received none/,
    );
  });

  it("is not accepted from an operator, and an operator's token is not accepted from an agent", async () => {
    const { verifier, issuer, token } = await setup();
    const operator = await issuer.operatorToken(
      { id: "server", address: "server.test:1" },
      nowMs,
      nowMs + 1_000,
    );
    await verifier.operator(operator);
    await expect(verifier.operator(await token())).rejects.toSatisfy(
      refused("PERMISSION_DENIED", /role "operator", received one of role "agent"/),
    );
    await expect(verifier.join(operator, "world")).rejects.toSatisfy(
      refused("PERMISSION_DENIED", /role "operator"/),
    );
  });

  it("cannot be checked before the server has reached its matchmaker", async () => {
    const verifier = tokenVerifier({
      serverId: () => "s",
      address: "s:1",
      jwks: () => undefined,
      now: () => nowMs,
    });
    await expect(verifier.join("x", "world")).rejects.toSatisfy(
      refused("UNAVAILABLE", /try again/),
    );
  });
});

describe("a token of a key that the matchmaker has replaced", () => {
  const unknownKey = refused("UNAUTHENTICATED", /expected a token that the matchmaker issued/);

  /** A verifier that has learned the keys of several matchmakers, one after the other. */
  async function replaced(replacements = 1) {
    const first = await setup();
    let now = nowMs;
    const keys = new PublicKeys();
    keys.learn(first.issuer.jwks, now);
    for (let count = 0; count < replacements; count++) {
      keys.learn((await setup()).issuer.jwks, now);
    }
    const verifier = tokenVerifier({
      serverId: () => "server",
      address: "server.test:1",
      jwks: () => keys.current,
      earlierKeys: () => keys.earlier,
      now: () => now,
    });
    return {
      ...first,
      keys,
      verifier,
      pass: (ms: number) => {
        now += ms;
      },
    };
  }

  it.each([1, maxEarlierKeys])(
    "is valid until it expires, after %i replacements",
    async (count) => {
      const { verifier, token, pass } = await replaced(count);
      const mine = await token();
      expect(await verifier.join(mine, "world")).toMatchObject({ seatId: "seat-1" });
      pass(30_000);
      await expect(verifier.join(mine, "world")).rejects.toSatisfy(
        refused("UNAUTHENTICATED", /expired/),
      );
    },
  );

  it("is refused after more replacements than the server remembers", async () => {
    const { verifier, keys, token } = await replaced(maxEarlierKeys + 1);
    expect(keys.earlier).toHaveLength(maxEarlierKeys);
    await expect(verifier.join(await token(), "world")).rejects.toSatisfy(unknownKey);
  });

  it("is refused ten minutes after the replacement, except for a held seat", async () => {
    const { verifier, token, pass } = await replaced();
    const long = await token({ expiresMs: nowMs + 2 * earlierMs });
    pass(earlierMs - 1);
    await verifier.join(long, "world");
    pass(1);
    await expect(verifier.join(long, "world")).rejects.toSatisfy(unknownKey);
    const isHeld = (seatId: string): boolean => seatId === "seat-1";
    await verifier.join(long, "world", isHeld);
    const other = await token({ expiresMs: nowMs + 2 * earlierMs });
    await expect(verifier.join(other, "world", isHeld)).rejects.toSatisfy(unknownKey);
  });

  it("is valid again if the matchmaker uses the key again", async () => {
    const { verifier, issuer, keys, token, pass } = await replaced(2);
    keys.learn(issuer.jwks, nowMs);
    keys.learn(issuer.jwks, nowMs);
    expect(keys.earlier).toHaveLength(2);
    pass(earlierMs);
    await verifier.join(await token({ expiresMs: nowMs + 2 * earlierMs }), "world");
  });

  it("is checked like other tokens", async () => {
    const { verifier, token } = await replaced();
    const elsewhere = await token({ serverId: "other" });
    await expect(verifier.join(elsewhere, "world")).rejects.toSatisfy(
      refused("PERMISSION_DENIED", /this token is for another server/),
    );
    const { token: foreign } = await setup();
    await expect(verifier.join(await foreign(), "world")).rejects.toSatisfy(unknownKey);
  });

  it("is refused if it is an operator's", async () => {
    const { verifier, issuer } = await replaced();
    const server = { id: "server", address: "server.test:1" };
    const operator = await issuer.operatorToken(server, nowMs, nowMs + 1_000);
    await expect(verifier.operator(operator)).rejects.toSatisfy(unknownKey);
  });
});

describe("a seat", () => {
  it("is taken once, even if its token is presented several times concurrently", async () => {
    const { seats, token } = await setup();
    const mine = await token();
    const attempts = await Promise.allSettled(
      Array.from({ length: 8 }, () => seats.take(mine, "world")),
    );
    const taken = attempts.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(taken).toHaveLength(1);
    expect(seats.ticketsIn("world")).toEqual(["ticket"]);
    taken[0]?.leave();
    expect(seats.ticketsIn("world")).toEqual([]);
    await expect(seats.take(mine, "world")).rejects.toSatisfy(
      refused("PERMISSION_DENIED", /has been taken/),
    );
  });

  it("whose agent the world refused may be taken again", async () => {
    const { seats, token } = await setup();
    const mine = await token();
    const seat = await seats.take(mine, "world");
    seat.giveBack();
    expect(seats.ticketsIn("world")).toEqual([]);
    await seats.take(mine, "world");
  });

  it("that was reported as taken, and whose agent the world then refused, stays reserved until its token expires", async () => {
    const { seats, token, pass } = await setup();
    const mine = await token();
    for (const _ of [1, 2]) {
      const seat = await seats.take(mine, "world");
      expect(seats.ticketsIn("world")).toEqual(["ticket"]);
      seat.giveBack();
      expect(seats.ticketsIn("world")).toEqual(["ticket"]);
    }
    // The world refuses again before the next report.
    (await seats.take(mine, "world")).giveBack();
    expect(seats.ticketsIn("world")).toEqual(["ticket"]);
    pass(30_000);
    expect(seats.ticketsIn("world")).toEqual([]);
    await expect(seats.take(mine, "world")).rejects.toSatisfy(
      refused("UNAUTHENTICATED", /expired/),
    );
  });

  it("is forgotten with its world", async () => {
    const { seats, token } = await setup();
    const [takenOne, refusedOne] = [await token(), await token({ ticketId: "other" })];
    const gone = await seats.take(takenOne, "world");
    const back = await seats.take(refusedOne, "world");
    expect(seats.ticketsIn("world")).toEqual(["ticket", "other"]);
    gone.leave();
    back.giveBack();
    seats.keep(new Set(["world"]));
    expect(seats.leftFrom("world")).toEqual(["ticket"]);
    expect(seats.ticketsIn("world")).toEqual(["other"]);
    seats.keep(new Set());
    expect(seats.leftFrom("world")).toEqual([]);
    expect(seats.ticketsIn("world")).toEqual([]);
  });
});
