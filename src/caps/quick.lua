-- The commonest call in few steps: a take without an id, of fixed windows alone. ARGV holds its caps: limit | field | limit | …
--
-- When every window is open with one count and room for more, no place is held, and the key lives as long as its counts, this does
-- what the rest of the script would, and gives what the fields hold now: `end:count`, of several caps as a list. All other calls go
-- on there, and this one too, in the words of a question.

local ARGV = ARGV

-- What a field will hold with one count more, and how long that stands; nil when it takes more than adding one.
local function counted(text, limit)
  local ends, count = string.match(text or '', '^(%d+):(%d+)$')
  if not ends or ends - now <= 0 or count - limit >= 0 then return nil end
  return ends .. ':' .. string.format('%.0f', count + 1), ends - now
end

if string.byte(ARGV[1]) < 58 then
  local n = #ARGV / 2
  if n == 1 then
    local field = ARGV[2]
    local text, life = counted(redis.call('HGET', key, field), ARGV[1])
    if text and redis.call('PTTL', key) >= life then
      redis.call('HSET', key, field, text)
      return text
    end
  else
    local fields, texts, written, longest = {}, {}, { 'HSET', key }, 0
    for i = 1, n do fields[i] = ARGV[2 * i] end
    local found = redis.call('HMGET', key, unpack(fields))
    for i = 1, n do
      local text, life = counted(found[i], ARGV[2 * i - 1])
      if not text then break end
      texts[i], longest = text, math.max(longest, life)
      written[2 * i + 1], written[2 * i + 2] = fields[i], text
    end
    if texts[n] and redis.call('PTTL', key) >= longest then
      redis.call(unpack(written))
      return texts
    end
  end
  local question = 't'
  for i = 1, n do question = question .. ARGV[2 * i - 1] .. ' ' .. #ARGV[2 * i] .. ' ;' .. ARGV[2 * i] end
  ARGV = { question }
end

