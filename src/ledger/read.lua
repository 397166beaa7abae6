-- Fields of a hash, as the primary has them.
return redis.call('HMGET', KEYS[1], unpack(ARGV))
