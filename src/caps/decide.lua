-- Decides about all caps of one user, and counts all or none.
--
-- ARGV: what is asked, whose operation is c check | t take | r reserve | m commit | b count what is billed; then, with an id:
-- id | mark | life of a reservation, or least life of a billed id; then when what is billed happened, or, after a failover, per
-- cap: count seen | its end | until when it stands (without an id: behind '' '' 0).
--
-- What is billed is counted whatever the limits say, in the windows of the time it happened: where such a window has ended,
-- nothing is left to count. An id lives at least as long as its windows, so counting it again at any time changes nothing.
--
-- Gives { status, now in two words, per cap: used, ms until one more fits or the count falls, ms until the count ends, and
-- after a denial the ids remembered }, and how many caps were raised. status: 1 allowed | 0 denied | 2 the id was allowed
-- before | 3 the same, and it is billed | -1 send the boundaries of `now` | -2 the id stands for other caps.

local op, caps = asked(ARGV[1])
if not op then return timed(-1) end
local id, mark, life, n = ARGV[2] or '', ARGV[3], tonumber(ARGV[4] or 0), #caps
local happened = op == 'b' and math.min(tonumber(ARGV[5]), now) or now
local fields, longest = { '' }, 0
for i, cap in ipairs(caps) do
  if cap.span > longest then longest = cap.span end
  fields[i + 1] = cap.field
end
if id ~= '' then fields[n + 2] = 'i' .. id end
local found = redis.call('HMGET', key, unpack(fields))

local record = id ~= '' and recordOf(found[n + 2]) or nil
if record and record.mark ~= mark then return timed(-2) end

local full, dirty, raised = false, false, 0
for i, cap in ipairs(caps) do
  local parts, used = parse(found[i + 1])
  if not parts then return malformed(cap.field) end
  local seen = op ~= 'b' and tonumber(ARGV[2 + 3 * i])
  if seen and seen > used and tonumber(ARGV[4 + 3 * i]) > now then
    add(parts, tonumber(ARGV[3 + 3 * i]), ':', seen - used)
    used, cap.dirty, dirty, raised = seen, true, true, raised + 1
  end
  cap.parts, cap.used = parts, used
  if used >= cap.limit then full = true end
end

local status = (full and op ~= 'b') and 0 or 1
local commits = record and record.state == 'h' and (op == 't' or op == 'm' or op == 'b')
local known = record and not commits
if record then status = commits and 1 or record.state == 'b' and 3 or 2 end

-- The end of the window that a count belongs to; nil when it has ended.
local function endFor(cap)
  if cap.kind == 's' then
    local ends = (math.floor(happened / cap.sub) + 1) * cap.sub - 1 + cap.span
    return ends > now and ends or nil
  end
  if cap.kind == 'f' and now - happened >= cap.span then return nil end
  if cap.kind == 'c' and happened < cap.ends - cap.span then return nil end
  -- A window that is open goes on, whatever its kind would begin now.
  local ends = cap.kind == 'f' and happened + cap.span or cap.ends
  for _, part in ipairs(cap.parts) do
    if part.kind == ':' then ends = part.ends end
  end
  return ends
end

local made, ends = '', now + (op == 'r' and life or longest)
if op == 'b' then ends = now + math.max(longest + math.ceil(longest / SUB_BUCKETS), life) end
if status == 1 and op ~= 'c' then
  for _, cap in ipairs(caps) do
    local parts = cap.parts
    if commits and takeOff(parts, record.ends, ';') then
      cap.used, cap.dirty, dirty = cap.used - 1, true, true
    end
    if op == 'r' then
      add(parts, ends, ';', 1)
      cap.used, cap.dirty, dirty = cap.used + 1, true, true
    else
      local last = endFor(cap)
      if last then
        cap.ends = last
        add(parts, last, ':', 1)
        cap.used, cap.dirty, dirty = cap.used + 1, true, true
      end
    end
  end
  local state = op == 'r' and ' h ' or op == 'b' and ' b ' or ' t '
  if id ~= '' then made = digits(ends) .. ' ' .. mark .. state .. digits(happened) end
elseif op == 'b' and known and record.state == 't' then
  -- Counted by a take, and billed now.
  made = digits(ends) .. ' ' .. mark .. ' b ' .. digits(record.at)
end
if made ~= '' then dirty = true end

if dirty then
  local ending, pruneAt, kept = string.match(found[1] or '', '^(%d+) (%d+) (%d+)$')
  ending, pruneAt, kept = tonumber(ending or 0), tonumber(pruneAt or 0), tonumber(kept or 0)
  local written = { 'HSET', key }
  for _, cap in ipairs(caps) do
    if cap.dirty and #cap.parts > 0 then
      written[#written + 1], written[#written + 2] = cap.field, format(cap.parts)
      local last = cap.parts[#cap.parts].ends
      if last > ending then ending = last end
    elseif cap.dirty then
      redis.call('HDEL', key, cap.field)
    end
  end
  if made ~= '' then
    written[#written + 1], written[#written + 2] = 'i' .. id, made
    if ends > ending then ending = ends end
  end
  -- What has ended goes when there is as much of it as of the rest, or when a longest window has passed.
  local size = redis.call('HLEN', key)
  local ended = {}
  if now >= pruneAt or size > 2 * kept + 32 then
    local all = redis.call('HGETALL', key)
    for at = 1, #all, 2 do
      if all[at] ~= '' then
        local last = 0
        for text in string.gmatch(string.sub(all[at], 1, 1) == 'i' and string.match(all[at + 1], '^%d+') or all[at + 1], '(%d+)[:;]?%d*') do
          if tonumber(text) > last then last = tonumber(text) end
        end
        if last <= now then ended[#ended + 1] = all[at] end
      end
    end
    kept, pruneAt = size - #ended, now + longest
  end
  written[#written + 1], written[#written + 2] = '', digits(ending) .. ' ' .. digits(pruneAt) .. ' ' .. digits(kept)
  for at = 1, #ended, 1000 do redis.call('HDEL', key, unpack(ended, at, math.min(at + 999, #ended))) end
  redis.call(unpack(written))
  redis.call('PEXPIREAT', key, digits(ending))
elseif found[1] and redis.call('PTTL', key) == -1 then
  redis.call('PEXPIREAT', key, string.match(found[1], '^%d+') or digits(now + longest))
end

local reply = timed(status)
for _, cap in ipairs(caps) do
  local parts, left = cap.parts, cap.used
  local resets = cap.ends
  for at, part in ipairs(parts) do
    left = left - part.count
    if at == 1 then resets = part.ends end
    if left < cap.limit then
      resets = part.ends
      break
    end
  end
  reply[#reply + 1] = cap.used
  reply[#reply + 1] = resets - now
  reply[#reply + 1] = cap.ends - now
end
if status == 0 then
  local ids = {}
  if redis.call('HLEN', key) > 512 then
    ids = 0
  else
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if string.sub(field, 1, 1) == 'i' then ids[#ids + 1] = string.sub(field, 2) end
    end
  end
  reply[#reply + 1] = ids
end
reply[#reply + 1] = raised
return reply
