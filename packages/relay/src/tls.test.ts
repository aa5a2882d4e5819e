// SPDX-License-Identifier: Apache-2.0
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "@dm-env-rpc/client";
import { Program } from "@dm-env-rpc/tests-processes";
import { expect, it } from "vitest";
import { authority, serverPair } from "../../transport/src/testing/certificates.ts";
import { counting } from "../testing/counting.ts";
import { gameToken, serving } from "../testing/relaying.ts";

const main = fileURLToPath(new URL("../testing/programs/program.ts", import.meta.url));

it("serves TLS to programs and to agents", async () => {
  await using served = await serving({ tls: serverPair, publicHost: "localhost" });
  const relay = `wss://localhost:${served.relay.port}`;
  const folder = await mkdtemp(join(tmpdir(), "relay-"));
  try {
    // The platform's WebSocket reads additional authorities only from NODE_EXTRA_CA_CERTS.
    const authorities = join(folder, "authority.pem");
    await writeFile(authorities, authority);
    await using program = new Program(process.execPath, [main, relay, gameToken], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities },
    });
    const address = await program.says(/^listening on (\S+)$/m);
    expect(address).toMatch(/^https:\/\/localhost:\d+$/);
    for (const dialled of [address, address.replace("https", "wss")]) {
      const connection = await connect(dialled, { tls: { ca: authority } });
      const environment = await connection.join("counting-1", { as: counting });
      await environment.reset();
      expect((await environment.step({ add: 3 })).observation.total).toBe(3);
      await environment.close();
      await connection.close();
    }
    await expect(connect(address)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  } finally {
    await rm(folder, { recursive: true });
  }
});
