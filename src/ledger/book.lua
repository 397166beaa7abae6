-- Books entries of one spool on one account, each exactly once.
--
-- KEYS  1 the account's book (hash)   2, 3 ids of two generations (sets), used in turn
-- ARGV  1 spool   2 sequence number of the spool's entry before these, 0 when it does not matter
--       3 retention of ids, ms   4 this spool may be summed up when it is idle for so long, ms; 0: never
--       then three for each entry: sequence number, id, amount; sequence numbers grow
--
-- Fields of the book: balance; of each spool <spool>:seq (last entry booked), :sum and :count (booked), :dup and :dups
-- (sum and number of entries dropped because their id was known), :at (from when on it may be summed up, ms); turn and since
-- (generation of ids, and when it began); past:… for what idle spools came to. A spool that is never summed up has no :at:
-- its process may come back with entries that were booked, and only its sequence number tells them.
--
-- Balance and sequence number are one hash: a failover that loses one loses the other, and the spool sees it.
-- Gives { "gap", seq } when the entry before these is not booked, { "overflow", seq } when the balance would leave
-- 64 bits (nothing is booked then), else { "booked", seq, sequence numbers of duplicates… }. Sums are HINCRBY's, since
-- Lua's numbers end at 2^53; those that certainly stay below are added here.
if redis.replicate_commands then redis.replicate_commands() end
local book, spool = KEYS[1], ARGV[1]
local known = redis.call('HMGET', book, spool .. ':seq', 'turn', 'since')
local last = known[1] or '0'
if tonumber(ARGV[2]) > tonumber(last) then return { 'gap', last } end

local first = 5
while first <= #ARGV and tonumber(ARGV[first]) <= tonumber(last) do first = first + 3 end
if first > #ARGV then return { 'booked', last } end
local ids = {}
for at = first, #ARGV, 3 do ids[#ids + 1] = ARGV[at + 1] end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local retention = tonumber(ARGV[3])
local turn, since = tonumber(known[2] or '0'), tonumber(known[3] or '0')
local turned = now - since >= retention
if turned then turn, since = 1 - turn, now end
local current, former = KEYS[2 + turn], KEYS[3 - turn]
local seen = redis.call('SMISMEMBER', former, unpack(ids))
local seenNow = turned and {} or redis.call('SMISMEMBER', current, unpack(ids))

-- Sums that are exact here, and amounts that may not be.
local function tally() return { small = 0, large = {}, count = 0 } end
local function count(sum, amount)
  sum.count = sum.count + 1
  if #amount <= 12 then sum.small = sum.small + tonumber(amount) else sum.large[#sum.large + 1] = amount end
end
local fresh, mine, duplicates = {}, {}, {}
local booked, dropped = tally(), tally()
for index, id in ipairs(ids) do
  local at = first + 3 * (index - 1)
  if seen[index] == 1 or seenNow[index] == 1 or mine[id] then
    duplicates[#duplicates + 1] = ARGV[at]
    count(dropped, ARGV[at + 2])
  else
    mine[id] = true
    fresh[#fresh + 1] = id
    count(booked, ARGV[at + 2])
  end
end

local done = {}
local function apply(field, amount)
  if amount == '0' then return nil end
  local reply = redis.pcall('HINCRBY', book, field, amount)
  if type(reply) == 'table' and reply.err then return reply end
  done[#done + 1] = { field, amount }
  return nil
end
local function applyAll(field, sum)
  local failed = apply(field, string.format('%.0f', sum.small))
  for _, amount in ipairs(sum.large) do failed = failed or apply(field, amount) end
  return failed
end
local failed = applyAll('balance', booked) or applyAll(spool .. ':sum', booked) or applyAll(spool .. ':dup', dropped)
if failed then
  for index = #done, 1, -1 do
    local amount = done[index][2]
    local back = string.sub(amount, 1, 1) == '-' and string.sub(amount, 2) or '-' .. amount
    redis.call('HINCRBY', book, done[index][1], back)
  end
  if string.find(failed.err, 'overflow', 1, true) then return { 'overflow', last } end
  return failed
end

-- A spool that is new here: what others left that have been idle for long becomes one sum.
if not known[1] then
  local all = redis.call('HGETALL', book)
  local fields = {}
  for at = 1, #all, 2 do fields[all[at]] = all[at + 1] end
  for field, value in pairs(fields) do
    local other = string.match(field, '^(%x+):at$')
    if other and other ~= spool and now > tonumber(value) then
      for _, what in ipairs({ 'sum', 'count', 'dup', 'dups' }) do
        local past = fields[other .. ':' .. what]
        if past then
          if type(redis.pcall('HINCRBY', book, 'past:' .. what, past)) == 'number' then
            redis.call('HDEL', book, other .. ':' .. what)
          end
        end
      end
      redis.call('HDEL', book, other .. ':seq', other .. ':at')
    end
  end
end

last = ARGV[#ARGV - 2]
if turned then redis.call('DEL', current) end
if #fresh > 0 then
  redis.call('SADD', current, unpack(fresh))
  redis.call('PEXPIREAT', current, string.format('%.0f', since + 2 * retention))
end
redis.call('HSET', book, 'turn', turn, 'since', string.format('%.0f', since), spool .. ':seq', last)
if ARGV[4] ~= '0' then redis.call('HSET', book, spool .. ':at', string.format('%.0f', now + tonumber(ARGV[4]))) end
redis.call('HINCRBY', book, spool .. ':count', booked.count)
redis.call('HINCRBY', book, spool .. ':dups', dropped.count)
local reply = { 'booked', last }
for _, seq in ipairs(duplicates) do reply[#reply + 1] = seq end
return reply
