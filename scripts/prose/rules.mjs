// SPDX-License-Identifier: Apache-2.0

/**
 * Phrases that a reader understands on the second reading, and the replacement for each. A space in a
 * pattern matches any white space. `opening` patterns match only the first words of a docstring.
 */
export const rules = [
  {
    opening: true,
    pattern: /(What|Who|Whose|Whoever|Whatever|Whether|How|Those|Where)\b/,
    write: 'a noun ("Events the server emits.") or a verb ("Returns …", "True while …")',
  },
  {
    pattern: /\b(nobody|somebody|anybody|no one|whoever)\b/i,
    write: "the subject: the client, the server, a caller, no agent",
  },
  {
    pattern: /(?<!\bthere )\b(is|are|was|were) none\b/i,
    write: '"is not a …", "has no …", or what it is instead',
  },
  {
    pattern: /(?<!\bthere )\b(is|are) no (?!(longer|more|less|fewer|later|earlier|greater) )/i,
    write: '"is not a …", "has no …"',
  },
  {
    pattern: /, and (not|never)\b/i,
    write: "the statement alone, or a sentence of its own",
  },
  {
    pattern: /\bthe result \w+s (it|them)\b/i,
    write: '"@returns A function that …"',
  },
  {
    pattern: /\b(lend|lends|lent|lending|lender)\b/i,
    write: '"borrow", "borrowed"; a copy makes memory the reader\'s own',
  },
  {
    pattern: /\b(owe|owes|owed|owing|debts?|unpaid)\b/i,
    write: '"undelivered"; "undelivered end" for an agent\'s end of a sequence',
  },
  {
    pattern: /\b(lifelines?|passengers?)\b/i,
    write: '"reconnecting stream", "joined agent"',
  },
  {
    pattern: /\bhonest codes?\b/i,
    write: '"the code that names the cause"; "maps errors to Connect codes"',
  },
  {
    pattern: /\bcan not\b/i,
    write: '"cannot"',
  },
];

/** Files whose text comes from elsewhere or is generated. */
export const excluded = [
  "packages/protocol/src/gen/",
  "proto/dm_env_rpc/",
  "proto/google/",
  "proto/grpc/",
];
