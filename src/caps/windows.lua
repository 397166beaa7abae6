-- What the scripts of a user's caps share; put before each of them.
--
-- KEYS[1] is the user's hash. It holds, by field:
--
--   ''            end of the key | when to prune next | fields left by the last pruning
--   window name   end:count end:count end;count …     counts until `end` (:), places held until `end` (;), by end
--   i<id>         end mark state at                   an id: t taken, h held, b billed, and when; `mark` names the list of caps
--
-- All times are the server's, in milliseconds. What has ended counts for nothing, wherever it still stands. A fixed or
-- civil window is one count; a sliding one has a count per sub-bucket, which stays until the last millisecond of the
-- sub-bucket is a whole window old.

local SUB_BUCKETS = 60

-- The server's time as replies tell it: two integers of 32 bits.
local function timed(status)
  return { status, math.floor(now / 1000000), now % 1000000 }
end

local function digits(number)
  return string.format('%.0f', number)
end

local function malformed(field)
  return redis.error_reply('KEYLANE the field ' .. field .. ' of ' .. key .. ' is no cap')
end

-- The window that a count made now belongs to; nil when the boundaries sent do not hold the server's time.
--   f<ms> fixed | s<ms> sliding | c<boundaries> civil, and perhaps more behind a space
local function windowOf(spec)
  local kind = string.sub(spec, 1, 1)
  if kind == 'c' then
    local start
    for text in string.gmatch(spec, '%d+') do
      local boundary = tonumber(text)
      if boundary > now then
        if not start then return nil end
        return { kind = kind, span = boundary - start, ends = boundary }
      end
      start = boundary
    end
    return nil
  end
  local span = tonumber(string.match(spec, '^%a(%d+)'))
  if kind == 'f' then return { kind = kind, span = span, ends = now + span } end
  local sub = math.ceil(span / SUB_BUCKETS)
  return { kind = kind, span = span, sub = sub, ends = (math.floor(now / sub) + 1) * sub - 1 + span }
end

-- The parts of a window's text that have not ended, and their sum; nil when the text is something else.
local function parse(text)
  local parts, used = {}, 0
  if not text then return parts, used end
  if not string.find(text, '^%d+[:;]%d+[%d:; ]*$') then return nil end
  for ends, kind, count in string.gmatch(text, '(%d+)([:;])(%d+)') do
    local part = { ends = tonumber(ends), kind = kind, count = tonumber(count) }
    if part.ends > now then
      parts[#parts + 1] = part
      used = used + part.count
    end
  end
  return parts, used
end

local function format(parts)
  local texts = {}
  for i, part in ipairs(parts) do texts[i] = digits(part.ends) .. part.kind .. digits(part.count) end
  return table.concat(texts, ' ')
end

-- Adds to the part of this end and kind, or puts a new one in its place.
local function add(parts, ends, kind, count)
  local at = #parts
  while at > 0 and parts[at].ends >= ends do
    if parts[at].ends == ends and parts[at].kind == kind then
      parts[at].count = parts[at].count + count
      return
    end
    at = at - 1
  end
  table.insert(parts, at + 1, { ends = ends, kind = kind, count = count })
end

-- Takes one from the part; false when there is none.
local function takeOff(parts, ends, kind)
  for at, part in ipairs(parts) do
    if part.ends == ends and part.kind == kind then
      part.count = part.count - 1
      if part.count == 0 then table.remove(parts, at) end
      return true
    end
  end
  return false
end

-- An id's record that has not ended.
local function recordOf(text)
  if not text then return nil end
  local ends, mark, state, at = string.match(text, '^(%d+) (%d+) (%a) (%d+)$')
  if not ends or tonumber(ends) <= now then return nil end
  return { ends = tonumber(ends), mark = mark, state = state, at = tonumber(at) }
end

-- What is asked: the operation, then per cap `limit bytes window;field`, where a window left out is what the field begins with.
-- nil when the boundaries sent do not hold the server's time.
local function asked(text)
  local caps, at = {}, 2
  while at <= #text do
    local limit, bytes, window, start = string.match(text, '^(%d+) (%d+) ([^;]*);()', at)
    at = start + bytes
    local field = string.sub(text, start, at - 1)
    local cap = windowOf(window == '' and field or window)
    if not cap then return nil end
    cap.field, cap.limit = field, tonumber(limit)
    caps[#caps + 1] = cap
  end
  return string.sub(text, 1, 1), caps
end
