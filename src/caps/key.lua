-- The cap of one key: its number counts up to a limit, and is gone a window after the first count.
--
-- KEYS[1] the counter; KEYS[2], when the call has an id, the key that remembers it. ARGV: limit | window in ms.
-- Gives { status, now, used, ms until the window ends }. status: 1 allowed | 0 denied | 2 the id was allowed before.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local text = redis.call('GET', KEYS[1])
if text and not string.find(text, '^%d+$') then
  return redis.error_reply('KEYLANE the value of ' .. KEYS[1] .. ' is no count')
end
local used = tonumber(text or 0)
local left = redis.call('PTTL', KEYS[1])
local status = 1
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then
  status = 2
elseif used >= limit then
  status = 0
else
  used = redis.call('INCR', KEYS[1])
  if KEYS[2] then redis.call('SET', KEYS[2], '', 'PX', window) end
end
if left < 0 then
  if status == 1 or text then redis.call('PEXPIRE', KEYS[1], window) end
  left = window
end
return { status, now, used, math.max(left, 1) }
