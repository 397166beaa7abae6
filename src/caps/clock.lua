-- Put before the scripts of a user's caps: the user's hash, and the server's time in milliseconds.

local key = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

