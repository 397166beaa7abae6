-- Stores a copy of a hot key's value, unless the key was written since its filler put the fence there.
--
-- KEYS: copy | fence.  ARGV: what the filler put there | life that it gave the fence | value | life of the value, counted from
-- then; lives in milliseconds.
--
-- How much of the copy's life is gone is read off the fence, so that only this server's clock counts: the copy never outlives
-- the original, and no filler that was held up brings an old value to life. Gives 1 when stored, 0 when not.

if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
local life = tonumber(ARGV[4]) - (tonumber(ARGV[2]) - redis.call('PTTL', KEYS[2]))
redis.call('DEL', KEYS[2])
if life < 1 then return redis.call('DEL', KEYS[1]) * 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', life)
return 1
