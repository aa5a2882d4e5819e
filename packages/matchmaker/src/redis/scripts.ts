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

/**
 * All changes or none.
 *
 * KEYS: records, log, version, deleted, forgotten, lease. ARGV: the fence or "", the channel, how many deleted
 * records are remembered, then of each change its key, the version that it must have, and its new value or "".
 */
export const commitScript: Script = script(`
if ARGV[1] ~= '' and redis.call('GET', KEYS[6]) ~= ARGV[1] then return {'fenced'} end
local reply = {'conflict'}
for i = 4, #ARGV, 3 do
  local current = redis.call('HGET', KEYS[1], ARGV[i])
  local version = '0'
  if current then version = string.match(current, '^%d+') end
  if version ~= ARGV[i + 1] then reply[#reply + 1] = ARGV[i] end
end
if #reply > 1 then return reply end
local version = string.format('%.0f', redis.call('INCR', KEYS[3]))
for i = 4, #ARGV, 3 do
  local key, value = ARGV[i], ARGV[i + 2]
  if value == '' then
    redis.call('HDEL', KEYS[1], key)
    redis.call('ZADD', KEYS[4], version, key)
  else
    redis.call('HSET', KEYS[1], key, version .. ' ' .. value)
    redis.call('ZREM', KEYS[4], key)
  end
  redis.call('ZADD', KEYS[2], version, key)
end
local spare = redis.call('ZCARD', KEYS[4]) - 2 * tonumber(ARGV[3])
if spare > 0 then
  local oldest = redis.call('ZPOPMIN', KEYS[4], tonumber(ARGV[3]))
  for i = 1, #oldest, 2 do redis.call('ZREM', KEYS[2], oldest[i]) end
  redis.call('SET', KEYS[5], oldest[#oldest])
end
redis.call('PUBLISH', ARGV[2], version)
return {'ok', version}
`);

/**
 * What has changed since a version, the latest state of each record, without cutting a commit in two.
 *
 * KEYS: records, log, version, forgotten. ARGV: the version, how many records.
 * Answers: whether to start over, where to go on, whether there is more, the time, then of each record its key,
 * version and value or "".
 */
export const changesScript: Script = script(`
local latest = tonumber(redis.call('GET', KEYS[3]) or '0')
local since, limit, reset = tonumber(ARGV[1]), tonumber(ARGV[2]), '0'
local forgotten = tonumber(redis.call('GET', KEYS[4]) or '0')
if since > latest or (since > 0 and since < forgotten) then
  since = 0
  reset = '1'
end
local from = string.format('(%.0f', since)
local keys = redis.call('ZRANGE', KEYS[2], from, '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
local cursor, more = string.format('%.0f', latest), '0'
if #keys >= 2 * limit then
  local last = keys[#keys]
  cursor = last
  while #keys > 0 and keys[#keys] == last do
    keys[#keys] = nil
    keys[#keys] = nil
  end
  for _, part in ipairs(redis.call('ZRANGE', KEYS[2], last, last, 'BYSCORE', 'WITHSCORES')) do
    keys[#keys + 1] = part
  end
  if tonumber(last) < latest then more = '1' end
end
local time = redis.call('TIME')
local reply = {reset, cursor, more, time[1], time[2]}
for i = 1, #keys, 2 do
  local value = redis.call('HGET', KEYS[1], keys[i])
  reply[#reply + 1] = keys[i]
  reply[#reply + 1] = keys[i + 1]
  reply[#reply + 1] = value or ''
end
return reply
`);

/** KEYS: lease, fence. ARGV: milliseconds. Answers the token, or "" when somebody has the lease. */
export const acquireScript: Script = script(`
if redis.call('EXISTS', KEYS[1]) == 1 then return '' end
local token = string.format('%.0f', redis.call('INCR', KEYS[2]))
redis.call('SET', KEYS[1], token, 'PX', ARGV[1])
return token
`);

/** KEYS: lease. ARGV: the token, milliseconds. Answers whether it is held. */
export const renewScript: Script = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`);

/** KEYS: lease. ARGV: the token. */
export const releaseScript: Script = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);
