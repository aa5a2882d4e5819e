// SPDX-License-Identifier: Apache-2.0
import { shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";
import type { MatchData, MatchDatum } from "../model/model.ts";

/** Maximum size of a match's data as JSON. The limit exists because a join token carries the data in a header. */
const maxDataBytes = 1_024;

/** Names that match data cannot have, because they are the matchmaker's own join settings. */
const ownNames: ReadonlySet<string> = new Set(["team", "role", "match_id", "join_token"]);

/**
 * Validates the data of a match for its world and its agents.
 *
 * @param what Noun for the data in errors.
 * @throws DmEnvRpcError INVALID_ARGUMENT if the data cannot be join settings, or is too large.
 */
export function matchData(data: object, what: string): MatchData {
  const checked: Record<string, MatchDatum> = {};
  for (const [name, value] of Object.entries(data)) {
    if (name === "" || ownNames.has(name)) {
      throw invalid(
        what,
        `a name that is neither empty nor one of ${[...ownNames].join(", ")}`,
        `"${name}"`,
      );
    }
    if (!isDatum(value)) {
      throw invalid(
        `${what} "${shorten(name)}"`,
        "a string, a finite number, a boolean or a list of them",
        shorten(JSON.stringify(value) ?? "nothing"),
      );
    }
    checked[name] = value;
  }
  const bytes = Buffer.byteLength(JSON.stringify(checked));
  if (bytes > maxDataBytes) {
    throw invalid(what, `at most ${maxDataBytes} bytes as JSON`, `${bytes} bytes`);
  }
  return checked;
}

function isDatum(value: unknown): value is MatchDatum {
  return (
    typeof value === "string" ||
    typeof value === "boolean" ||
    (typeof value === "number" && Number.isFinite(value)) ||
    (Array.isArray(value) && value.every(isDatum))
  );
}
