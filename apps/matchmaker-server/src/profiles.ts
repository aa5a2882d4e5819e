// SPDX-License-Identifier: Apache-2.0
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type MatchProfile, MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";

/**
 * Reads match profiles from protobuf's JSON: a list of MatchProfile.
 *
 * @throws Error that names the malformed profile.
 */
export function readProfiles(text: string, file: string): MatchProfile[] {
  let json: JsonValue;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error(`${file}: expected JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (!Array.isArray(json)) {
    throw new Error(`${file}: expected a JSON list of match profiles`);
  }
  return json.map((profile, index) => {
    try {
      return fromJson(MatchProfileSchema, profile);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(`${file}: profile ${index + 1} is malformed: ${why}`);
    }
  });
}
