// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";

/** A script that Redis runs as one step. */
export interface Script {
  readonly source: string;
  readonly sha: string;
}

function script(source: string): Script {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

/** Runs a script even when Redis has no memory left. */
const evenWhenFull = "#!lua flags=allow-oom\n";

/**
 * Begins a new life of the store (see `Position`) if the store has none, or if Redis was restarted and may have
 * lost commits. The versions of a new life start above all versions of earlier lives.
 *
 * KEYS: life, version.
 *
 * ARGV: the run id of Redis, a new life.
 *
 * Replies with the current life.
 */
export const beginLifeScript: Script = script(`${evenWhenFull}
local life = redis.call('GET', KEYS[1])
if life then
  local id, run = string.match(life, '^(%S+) (%S+)')
  if run == ARGV[1] then return id end
end
local time = redis.call('TIME')
local version = redis.call('GET', KEYS[2]) or '0'
local least = time[1] * 1000000 + time[2]
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. version)
if tonumber(version) < least then redis.call('SET', KEYS[2], string.format('%.0f', least)) end
return ARGV[2]
`);

const commit = `
local life = redis.call('GET', KEYS[1])
if not life or (ARGV[1] ~= '' and string.match(life, '^%S+') ~= ARGV[1]) then return {'lost'} end
if ARGV[2] ~= '' and redis.call('GET', KEYS[7]) ~= ARGV[2] then return {'fenced'} end
local reply = {'conflict'}
for i = 5, #ARGV, 3 do
  local current = redis.call('HGET', KEYS[2], ARGV[i])
  local version = '0'
  if current then version = string.match(current, '^%d+') end
  if version ~= ARGV[i + 1] then reply[#reply + 1] = ARGV[i] end
end
if #reply > 1 then return reply end
local version = string.format('%.0f', redis.call('INCR', KEYS[4]))
for i = 5, #ARGV, 3 do
  local key, value = ARGV[i], ARGV[i + 2]
  if value == '' then
    redis.call('HDEL', KEYS[2], key)
    redis.call('ZADD', KEYS[5], version, key)
  else
    redis.call('HSET', KEYS[2], key, version .. ' ' .. value)
    redis.call('ZREM', KEYS[5], key)
  end
  redis.call('ZADD', KEYS[3], version, key)
end
local spare = redis.call('ZCARD', KEYS[5]) - 2 * tonumber(ARGV[4])
if spare > 0 then
  local oldest = redis.call('ZPOPMIN', KEYS[5], tonumber(ARGV[4]))
  for i = 1, #oldest, 2 do redis.call('ZREM', KEYS[3], oldest[i]) end
  redis.call('SET', KEYS[6], oldest[#oldest])
end
redis.call('PUBLISH', ARGV[3], version)
return {'ok', version}
`;

/**
 * Applies all changes of a commit, or none.
 *
 * KEYS: life, records, log, version, deleted, forgotten, lease.
 *
 * ARGV:
 *
 * - the life, or "" for any
 * - the value of the lease, or "" for none
 * - the channel
 * - the number of deletions that are remembered
 * - for each change: the key of its record, the expected version, and the new value or ""
 *
 * Replies with a list:
 *
 * - "ok" and the version of the commit
 * - "conflict" and the keys of the conflicting records
 * - "lost", if the store has no life or another life
 * - "fenced", if the lease is no longer held
 */
export const commitScript: Script = script(commit);

/**
 * `commitScript` for commits that add no ticket, server or profile. This script runs even when Redis has no
 * memory left.
 */
export const commitWhenFullScript: Script = script(evenWhenFull + commit);

/**
 * Returns the latest state of each record that changed since a position, except records whose version
 * the reader knows. A reply never contains only a part of a commit.
 *
 * KEYS: life, records, log, version, forgotten.
 *
 * ARGV:
 *
 * - the life of the position, or "" without a position
 * - the version of the position
 * - the horizon of the position
 * - the newest version of the position
 * - the number of records to return
 * - the known versions
 *
 * Replies with {} if the store has no life, otherwise with a list:
 *
 * - the current life
 * - lost: "1" if the store has lost commits that the position includes, else "0"
 * - reset: "1" if the reader must start over, else "0"
 * - the version of the next position
 * - the horizon of the next position
 * - more: "1" if there are more changes to read, else "0"
 * - the time of Redis: seconds
 * - the time of Redis: microseconds of the second
 * - for each record: its key, its version, and its value or ""
 */
export const changesScript: Script = script(`
local stored = redis.call('GET', KEYS[1])
if not stored then return {} end
local life, kept = string.match(stored, '^(%S+) %S+ (%d+)')
local latest = tonumber(redis.call('GET', KEYS[4]) or '0')
local since, horizon = tonumber(ARGV[2]), tonumber(ARGV[3])
local newest, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local forgotten = tonumber(redis.call('GET', KEYS[5]) or '0')
local lost, reset = '0', '0'
if ARGV[1] == '' then
  reset = '1'
elseif ARGV[1] ~= life and tonumber(kept) < newest then
  lost = '1'
  reset = '1'
elseif horizon < forgotten then
  reset = '1'
end
if reset == '1' then
  since = 0
  horizon = latest
end
local from = string.format('(%.0f', since)
local keys = redis.call('ZRANGE', KEYS[3], from, '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
local cursor, more = string.format('%.0f', latest), '0'
if #keys >= 2 * limit then
  local last = keys[#keys]
  cursor = last
  while #keys > 0 and keys[#keys] == last do
    keys[#keys] = nil
    keys[#keys] = nil
  end
  for _, part in ipairs(redis.call('ZRANGE', KEYS[3], last, last, 'BYSCORE', 'WITHSCORES')) do
    keys[#keys + 1] = part
  end
  if tonumber(last) < latest then more = '1' end
end
horizon = string.format('%.0f', math.max(horizon, tonumber(cursor)))
local time = redis.call('TIME')
local known = {}
if reset == '0' then
  for i = 6, #ARGV do known[tonumber(ARGV[i])] = true end
end
local reply = {life, lost, reset, cursor, horizon, more, time[1], time[2]}
for i = 1, #keys, 2 do
  if not known[tonumber(keys[i + 1])] then
    local value = redis.call('HGET', KEYS[2], keys[i])
    reply[#reply + 1] = keys[i]
    reply[#reply + 1] = keys[i + 1]
    reply[#reply + 1] = value or ''
  end
end
return reply
`);

/**
 * Acquires a lease. The value of a lease is its holder, a space, and its epoch.
 *
 * KEYS: lease.
 *
 * ARGV: the holder, the epoch, the lease's time in milliseconds.
 *
 * Replies with 1 if the lease was acquired, 0 if another holder has it.
 */
export const acquireScript: Script = script(`${evenWhenFull}
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^%S+') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return 1
`);

/**
 * Renews a lease.
 *
 * KEYS: lease.
 *
 * ARGV: the value of the lease, the lease's time in milliseconds.
 *
 * Replies with 1 if the lease was held, else with 0.
 */
export const renewScript: Script = script(`${evenWhenFull}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

/**
 * Releases a lease, if it is still held.
 *
 * KEYS: lease.
 *
 * ARGV: the value of the lease.
 */
export const releaseScript: Script = script(`${evenWhenFull}
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);
