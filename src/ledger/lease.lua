-- Grants a holder the right to spend of a budget, and hears what it has spent.
--
-- KEYS  1 the budget (hash)
-- ARGV  1 holder   2 number of its request, growing   3 what it has spent, ever   4 what it was allowed to spend, ever
--       5 what it needs more   6 what it would like in reserve   7 limit   8 life of the lease, ms
--       9 holders and budgets idle for so long are forgotten, ms   10 "lease", "return" or "end"
--
-- Fields, of each holder <holder>:…  spent   may: it can spend up to here   keep: set aside for it, not to be spent yet
--                                     till: the lease ends, ms   n: last request
-- and past: spent by holders that ended.
--
--   limit ≥ past + Σ max(may, spent) + Σ keep
--
-- A lease that ends returns what was set aside. What a holder that is gone may have spent without telling (may - spent)
-- returns when it is back, or never: so the budget is never overspent. Numbers are below 2^53 and exact.
-- Gives { may, keep, what is left for all }.
if redis.replicate_commands then redis.replicate_commands() end
local budget, me = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all = redis.call('HGETALL', budget)
local holders, past = {}, 0
for at = 1, #all, 2 do
  local holder, what = string.match(all[at], '^(%x+):(%a+)$')
  if holder then
    holders[holder] = holders[holder] or { spent = 0, may = 0, keep = 0, till = 0, n = 0 }
    holders[holder][what] = tonumber(all[at + 1])
  elseif all[at] == 'past' then
    past = tonumber(all[at + 1])
  end
end
local own = holders[me] or { spent = 0, may = 0, keep = 0, till = 0, n = 0 }
holders[me] = nil
local function text(number) return string.format('%.0f', number) end
local function forget(holder)
  local fields = {}
  for _, what in ipairs({ 'spent', 'may', 'keep', 'till', 'n' }) do fields[#fields + 1] = holder .. ':' .. what end
  redis.call('HDEL', budget, unpack(fields))
end

local taken = 0
for holder, other in pairs(holders) do
  if other.keep > 0 and other.till < now then
    other.keep = 0
    redis.call('HSET', budget, holder .. ':keep', 0)
  end
  local used = math.max(other.may, other.spent)
  if other.till < now - tonumber(ARGV[9]) then
    past = past + used
    redis.call('HSET', budget, 'past', text(past))
    forget(holder)
  else
    taken = taken + used + other.keep
  end
end

local limit = tonumber(ARGV[7])
local function left() return math.max(0, limit - past - taken - math.max(own.may, own.spent) - own.keep) end
local n = tonumber(ARGV[2])
if n <= own.n then return { text(own.may), text(own.keep), text(left()) } end
own.n = n
own.spent = tonumber(ARGV[3])
own.may = math.max(own.may, own.spent, tonumber(ARGV[4]))
own.till = now + tonumber(ARGV[8])

if ARGV[10] == 'lease' then
  local need, wish = tonumber(ARGV[5]), tonumber(ARGV[6])
  local short = need - (own.may - own.spent) - own.keep
  local more = math.max(short, math.min(wish - own.keep, math.floor(left() / 8)))
  if short <= left() then own.keep = own.keep + math.max(0, math.min(more, left())) end
  local open = math.max(need, math.floor(wish / 8)) - (own.may - own.spent)
  if open > 0 and need - (own.may - own.spent) <= own.keep then
    open = math.min(open, own.keep)
    own.may = own.may + open
    own.keep = own.keep - open
  end
else
  own.may = own.spent
  own.keep = 0
end

if ARGV[10] == 'end' then
  redis.call('HSET', budget, 'past', text(past + own.spent))
  forget(me)
else
  redis.call('HSET', budget, me .. ':spent', text(own.spent), me .. ':may', text(own.may), me .. ':keep', text(own.keep),
    me .. ':till', text(own.till), me .. ':n', text(own.n))
end
redis.call('PEXPIRE', budget, ARGV[9])
return { text(own.may), text(own.keep), text(left()) }
