// SPDX-License-Identifier: Apache-2.0

/** The times and limits of a matchmaker. Each limit is named in the error of whoever meets it. */
export interface MatchmakerSettings {
  /** How often it looks for work where nothing calls for it. Default 500. */
  readonly tickMs: number;
  /** Least time between two looks; what changes meanwhile is taken together. Default 20. */
  readonly minTickMs: number;
  /** How long a matchmaker that went away is waited for before another takes over. Default 5,000. */
  readonly leaderLeaseMs: number;
  /** How long a server may be silent until it is lost: it gets no more worlds. Default 15,000. */
  readonly serverLeaseMs: number;
  /** How long a lost server may take to come back until its worlds are given up. Default 30,000. */
  readonly lostServerMs: number;
  /** How long a world that nobody owns is left alone. Default 10,000. */
  readonly orphanMs: number;
  /** How long a create, destroy or reset of a world may take. Default 30,000. */
  readonly worldCallMs: number;
  /** How long a server is not used after a create on it failed; doubles up to 30 times that. Default 1,000. */
  readonly cooldownMs: number;
  /** How long the address of a server that registers may take to answer. Default 5,000. */
  readonly callbackMs: number;
  /** How long a ticket may wait, from its creation. Default 600,000. */
  readonly maxWaitMs: number;
  /** How long a ticket that has ended is still known. Default 300,000. */
  readonly retainMs: number;
  /** Creates of which a world's own fault makes its tickets fail. Default 3. */
  readonly maxAttempts: number;
  /** Matches made at one look; more wait for the next. Default 500. */
  readonly maxMatchesPerTick: number;
  /** Creates at a time on one server. Default 32. */
  readonly maxCreatesPerServer: number;
  /** Tickets that are known, the ended ones included. Default 500,000. */
  readonly maxTickets: number;
  /** Bytes of a ticket. Default 16,384. */
  readonly maxTicketBytes: number;
  /** Servers. Default 1,000. */
  readonly maxServers: number;
  /** Worlds of one server. Default 10,000. */
  readonly maxWorldsPerServer: number;
  /** Profiles. Default 1,000. */
  readonly maxProfiles: number;
  /** Changes that wait for a slow watcher. Default 10,000. */
  readonly maxWatchQueue: number;
}

/** The settings of a matchmaker that was told nothing else. */
export const defaultSettings: MatchmakerSettings = {
  tickMs: 500,
  minTickMs: 20,
  leaderLeaseMs: 5_000,
  serverLeaseMs: 15_000,
  lostServerMs: 30_000,
  orphanMs: 10_000,
  worldCallMs: 30_000,
  cooldownMs: 1_000,
  callbackMs: 5_000,
  maxWaitMs: 600_000,
  retainMs: 300_000,
  maxAttempts: 3,
  maxMatchesPerTick: 500,
  maxCreatesPerServer: 32,
  maxTickets: 500_000,
  maxTicketBytes: 16_384,
  maxServers: 1_000,
  maxWorldsPerServer: 10_000,
  maxProfiles: 1_000,
  maxWatchQueue: 10_000,
};

/**
 * Settings, those that were not given by default.
 *
 * @throws RangeError naming one that is none.
 */
export function settingsFrom(given: Partial<MatchmakerSettings> = {}): MatchmakerSettings {
  const settings: Record<string, number> = { ...defaultSettings };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(defaultSettings, name)) {
      throw new RangeError(
        `there is no setting "${name}"; there are: ${Object.keys(defaultSettings).join(", ")}`,
      );
    }
    if (!(value >= 1)) {
      throw new RangeError(`setting ${name}: expected a number of at least 1, received ${value}`);
    }
    settings[name] = value;
  }
  return settings as unknown as MatchmakerSettings;
}
