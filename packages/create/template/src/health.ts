// Exits with 0 if a server reports SERVING, for Docker's HEALTHCHECK.
//
//   node src/health.ts [URL]
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus } from "@dm-env-rpc/protocol/health";

const [, , baseUrl = "http://127.0.0.1:8980"] = process.argv;
const health = createClient(Health, createGrpcTransport({ baseUrl }));
try {
  const { status } = await health.check({}, { timeoutMs: 2_000 });
  if (status === HealthCheckResponse_ServingStatus.SERVING) {
    process.exit(0);
  }
  throw new Error(
    `the server at ${baseUrl} is not serving: expected the status SERVING, received ${status}`,
  );
} catch (error) {
  console.error(String(error));
  process.exit(1);
}
