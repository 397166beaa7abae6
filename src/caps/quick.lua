-- The commonest call in few steps: a take without an id, of fixed windows that are all open with one count each and no place
-- held. What it does and says is what the rest of the script would; all other calls go on there.

if #ARGV == 1 and string.byte(ARGV[1]) == 116 then
  local question, at, n = ARGV[1], 2, 0
  local fields, limits = { '' }, {}
  while at <= #question do
    local limit, bytes, start = string.match(question, '^(%d+) (%d+) ;()f', at)
    if not limit then
      n = 0
      break
    end
    at, n = start + bytes, n + 1
    limits[n], fields[n + 1] = tonumber(limit), string.sub(question, start, at - 1)
  end
  if n > 0 then
    local found = redis.call('HMGET', key, unpack(fields))
    local ending, pruneAt = string.match(found[1] or '', '^(%d+) (%d+) %d+$')
    local reply, written = { 1, math.floor(now / 1000000), now % 1000000 }, { 'HSET', key }
    local quick = ending and tonumber(pruneAt) > now
    for i = 1, quick and n or 0 do
      local ends, count = string.match(found[i + 1] or '', '^(%d+):(%d+)$')
      local left, used = tonumber(ends or 0) - now, tonumber(count or 0) + 1
      if left <= 0 or used > limits[i] then
        quick = false
        break
      end
      written[2 * i + 1], written[2 * i + 2] = fields[i + 1], ends .. ':' .. string.format('%.0f', used)
      reply[3 * i + 1], reply[3 * i + 2], reply[3 * i + 3] = used, left, left
    end
    if quick then
      redis.call(unpack(written))
      redis.call('PEXPIREAT', key, ending)
      reply[3 * n + 4] = 0
      return reply
    end
  end
end

