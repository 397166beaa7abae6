-- Takes a holder's document out, and tells it; with a document given, only while it is the same.
-- KEYS[1] hash; ARGV: holder, message, document or nothing
if ARGV[3] and redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[3] then
  return 0
end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
  redis.call('PUBLISH', KEYS[1], ARGV[2])
  return 1
end
return 0
