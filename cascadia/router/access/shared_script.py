"""The limits of a key as several routers share them: one Lua script, which Redis runs as a whole.

A hash per key: `r` and `t` are the levels of its two buckets at `at` (ms), and `p:ROUTER` is how many requests a router
has under way, with the time (ms) until which that is to be believed. A router that dies holds no one up for longer. The
arithmetic is that of `rate_limits.py`; the clock is Redis's own, so that routers' clocks need not agree.
"""

from typing import NamedTuple

TAKE = """
local rpm, tpm, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, me, believed = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local found = redis.call('HGETALL', KEYS[1])
local r, t, at, running, mine = nil, nil, nil, 0, 0
for i = 1, #found, 2 do
  local name, value = found[i], found[i + 1]
  if name == 'r' then r = tonumber(value)
  elseif name == 't' then t = tonumber(value)
  elseif name == 'at' then at = tonumber(value)
  elseif string.sub(name, 1, 2) == 'p:' then
    -- A router of another version may tell more behind it.
    local count, until_ms = string.match(value, '^(%d+) (%d+)')
    local left = (tonumber(until_ms) or 0) - now
    -- Longer than anybody is told to be believed: its time is that of another clock, of a Redis before this one.
    if left <= 0 or left > 2 * believed then redis.call('HDEL', KEYS[1], name)
    else
      running = running + tonumber(count)
      if name == 'p:' .. me then mine = tonumber(count) end
    end
  end
end
if at == nil then r, t = rpm, (t or 0) + tpm
else
  local passed = math.max(0, now - at)
  r = math.min(rpm, (r or rpm) + rpm * passed / 60000)
  t = math.min(tpm, (t or tpm) + tpm * passed / 60000)
end
local refused, wait = 0, 0
if most > 0 and running >= most then refused, wait = 3, 1000
elseif rpm > 0 and r < 1 then refused, wait = 1, (1 - r) * 60000 / rpm
elseif tpm > 0 and t < tokens then
  refused = 2
  if tokens > tpm then wait = -1 else wait = (tokens - t) * 60000 / tpm end
else
  r, t = r - 1, t - tokens
  redis.call('HSET', KEYS[1], 'p:' .. me, string.format('%d %d', mine + 1, now + believed))
end
redis.call('HSET', KEYS[1], 'r', tostring(r), 't', tostring(t), 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 3600000)
return {refused, math.floor(r * 1000), math.floor(t), math.ceil(wait)}
"""
"""ARGV: requests and tokens a minute and requests at once (0: no limit), tokens asked for, the router, ms believed."""

SETTLE = """
local back, me, running, believed = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if back ~= 0 then redis.call('HINCRBYFLOAT', KEYS[1], 't', back) end
if running > 0 then
  redis.call('HSET', KEYS[1], 'p:' .. me, string.format('%d %d', running, now + believed))
else redis.call('HDEL', KEYS[1], 'p:' .. me) end
redis.call('PEXPIRE', KEYS[1], 3600000)
return 0
"""
"""ARGV: tokens given back (less than 0: used beyond the estimate), the router, what it has under way, ms believed."""


SPEND = """
local me = ARGV[1]
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], me .. '|' .. ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]))
local sums, found = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  local who, what = string.match(found[i], '^([^|]*)|(.*)$')
  local usd = tonumber(found[i + 1])
  -- What a router of another version keeps here besides is no sum.
  if who and usd and who ~= me then sums[what] = (sums[what] or 0) + usd end
end
local told = {}
for what, usd in pairs(sums) do
  told[#told + 1] = what
  told[#told + 1] = string.format('%.9f', usd)
end
return told
"""
"""ARGV: the process, ms kept, then `KEY|STAGE` and its dollars in turn. Returns sums of all others."""

SCRIPTS = (TAKE, SETTLE, SPEND)


class Taken(NamedTuple):
    """Reply of `TAKE`. `refused`: 0 granted, 1 requests, 2 tokens, 3 concurrent; `wait_ms` -1: never."""

    refused: int
    requests_1000: int
    tokens: int
    wait_ms: int
