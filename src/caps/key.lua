-- The cap of one key: its number counts up to a limit, and is gone a window after the first count.
--
-- KEYS[1] the counter; KEYS[2], when the call has an id, the key that remembers it. ARGV: limit | window in ms; then, after a
-- failover: count seen | its end | until when it stands.
-- Gives { status, now in two words, used, ms until the window ends, twice }, with a denial 0, and how many counters were raised.
-- status: 1 allowed | 0 denied | 2 the id was allowed before.

local key, clock = KEYS[1], redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local text = redis.call('GET', key)
if text and not string.find(text, '^%d+$') then
  return redis.error_reply('KEYLANE the value of ' .. key .. ' is no count')
end
local used, left = tonumber(text or 0), redis.call('PTTL', key)
local raised = 0
if ARGV[3] and tonumber(ARGV[3]) > used and tonumber(ARGV[5]) > now then
  used, text, raised = tonumber(ARGV[3]), ARGV[3], 1
  if left < 0 then left = tonumber(ARGV[4]) - now end
  redis.call('SET', key, text, 'PX', left)
end
local status = 1
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then
  status = 2
elseif used >= limit then
  status = 0
else
  used = redis.call('INCR', key)
  if KEYS[2] then redis.call('SET', KEYS[2], '', 'PX', window) end
end
if left < 0 then
  if status == 1 or text then redis.call('PEXPIRE', key, window) end
  left = window
end
left = math.max(left, 1)
local reply = { status, math.floor(now / 1000000), now % 1000000, used, left, left }
if status == 0 then reply[7] = 0 end
reply[#reply + 1] = raised
return reply
