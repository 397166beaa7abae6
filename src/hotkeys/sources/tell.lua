-- A holder's document goes into the hash and to all who listen; the hash is gone when nobody has written for long.
-- KEYS[1] hash; ARGV: holder, document, life of the hash in ms, message
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[4])
return 1
