-- Gives back what an id has counted (f refund), or the places it holds (l release), of caps of one user.
--
-- ARGV: what is asked (limits play no part) | id | mark.
--
-- Gives { status, now in two words, caps given back }. status: 1 done | 0 there is nothing to give back | -1 send the boundaries
-- of `now` | -2 the id stands for other caps. A count is taken from the window it was made in, while that is open: never below 0.

local op, caps = asked(ARGV[1])
if not op then return timed(-1) end
local id, mark = ARGV[2], ARGV[3]
local fields = { 'i' .. id }
for i, cap in ipairs(caps) do fields[i + 1] = cap.field end
local found = redis.call('HMGET', key, unpack(fields))
local record = recordOf(found[1])
if not record or (op == 'l' and record.state ~= 'h') then return timed(0) end
if record.mark ~= mark then return timed(-2) end

-- The end of the open window that a count made at `at` is in; nil when it has ended.
local function endOf(cap, at)
  if cap.kind == 's' then return (math.floor(at / cap.sub) + 1) * cap.sub - 1 + cap.span end
  for _, part in ipairs(cap.parts) do
    if part.kind == ':' and at < part.ends and at >= part.ends - cap.span then return part.ends end
  end
  return nil
end

local given = 0
for i, cap in ipairs(caps) do
  cap.parts = parse(found[i + 1])
  if not cap.parts then return malformed(cap.field) end
  if record.state == 'h' then
    cap.dirty = takeOff(cap.parts, record.ends, ';')
  else
    local ends = endOf(cap, record.at)
    cap.dirty = ends ~= nil and takeOff(cap.parts, ends, ':')
  end
end
for _, cap in ipairs(caps) do
  if cap.dirty then
    given = given + 1
    if #cap.parts == 0 then redis.call('HDEL', key, cap.field) else redis.call('HSET', key, cap.field, format(cap.parts)) end
  end
end
redis.call('HDEL', key, 'i' .. id)
if redis.call('HLEN', key) == 1 and redis.call('HEXISTS', key, '') == 1 then redis.call('DEL', key) end
local reply = timed(1)
reply[4] = given
return reply
