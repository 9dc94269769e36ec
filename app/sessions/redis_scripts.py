"""What Redis does in one step: the scripts of live sessions. Touches nothing by itself.

A session is one hash S: what it is, and of each message number its text `m:`, status `t:`, what
comes with it `x:` (receipt, error, steps), and who answers it `h:`; `c:` leads from the id of a
client's message to its number. Beside it stand D, the numbers that SQL does not hold yet, each with
its version; L, until when a pending reply is held, by the clock of Redis; and N, which tells who
loads the session from SQL that nobody changed it there meanwhile.

Three sets name sessions: those that are to be settled (twice: by name and by age), and those that
wait for their episode, after which their time to live starts. A set of each user names theirs.

JSON of users is never read or written here: Lua would change its numbers and its empty lists.
Each script may run twice, for an answer may be lost: what is stored already is told again.
"""

from __future__ import annotations

PREFIX = "rag-live:"
DIRTY, SINCE, WAITING = f"{PREFIX}dirty", f"{PREFIX}since", f"{PREFIX}waiting"

_COMMON = f"local DIRTY, SINCE, WAITING = '{DIRTY}', '{SINCE}', '{WAITING}'"
_COMMON += """
local S, D, L, N = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call
local function get(name) return call('HGET', S, name) end
local function whole(number) return string.format('%.0f', number) end
local function now()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end
local function state()
  return call('HMGET', S, 'user', 'created', 'last_seq', 'at', 'timezone', 'tokens', 'covered',
    'revision', 'first')
end
local function line(seq)
  seq = whole(tonumber(seq))
  return {seq, unpack(call('HMGET', S, 'm:'..seq, 't:'..seq, 'x:'..seq, 'h:'..seq))}
end
local function is_free(seq, at)
  local status = get('t:'..seq)
  if status == 'failed' or status == 'interrupted' then return true end
  if status ~= 'pending' then return false end
  local until_ = call('ZSCORE', L, seq)
  return not until_ or tonumber(until_) < at
end
local function stays()
  local member, mine = get('member'), get('mine')
  call('PERSIST', S)
  call('ZADD', mine, '+inf', member)
  call('PERSIST', mine)
  call('ZREM', WAITING, member)
end
-- how: 'n', or 'w' where the repeat of a message says anew what becomes of it. No version comes
-- again, not with another copy nor after Redis has lost its last moments: it is a time.
local function changed(seq, how, at)
  local member, before = get('member'), call('HGET', D, seq)
  if before and string.sub(before, 1, 1) == 'w' then how = 'w' end
  local version = whole(math.max(at, (tonumber(get('version')) or 0) + 1))
  call('HSET', S, 'version', version)
  call('HSET', D, seq, how..version)
  call('ZADD', DIRTY, 0, member)
  call('ZADD', SINCE, 'NX', whole(at), member)
  stays()
end
local function touch(moment)
  if tonumber(moment) > tonumber(get('at')) then call('HSET', S, 'at', moment) end
end
local function drop()
  local member, mine = get('member'), get('mine')
  call('DEL', S, D, L, N)
  for _, set in ipairs({DIRTY, SINCE, WAITING, mine}) do call('ZREM', set, member) end
end
local function lapse(before, error, at)
  local ended, alive = 0, 0
  for _, seq in ipairs(call('ZRANGE', L, 0, -1)) do
    if tonumber(seq) < before then
      if tonumber(call('ZSCORE', L, seq)) < at then
        call('HSET', S, 't:'..seq, 'interrupted', 'x:'..seq, error, 'h:'..seq, '')
        call('ZREM', L, seq)
        changed(seq, 'n', at)
        ended = ended + 1
      else
        alive = alive + 1
      end
    end
  end
  return ended, alive
end
"""

# user, has_id, client_id, said, holder, lease, moment, timezone, tokens, question, reply, prefix
BEGIN = (
    _COMMON
    + """
local user, has_id, client_id, said, holder, lease, moment, timezone, tokens, question, reply,
  theirs = unpack(ARGV)
if call('EXISTS', S) == 0 then return {'absent'} end
if get('user') ~= user then return {'foreign'} end
local at, last = now(), tonumber(get('last_seq'))
for _, seq in ipairs(call('ZRANGE', L, 0, -1)) do
  if get('m:'..whole(seq - 1)) == question then  -- our own try, whose answer was lost
    return {'mine', state(), line(seq - 1), line(seq), 0, {}}
  end
end
local repeated = false
if has_id == '1' then
  repeated = get('c:'..client_id)
elseif get('said') == said and is_free(whole(last), at) then
  repeated = last - 1
end
if repeated then
  repeated = tonumber(repeated)
  local how = is_free(whole(repeated + 1), at) and 'free' or 'taken'
  return {how, state(), line(repeated), line(repeated + 1), 0, {}}
end
local is_next = call('ZCARD', L) == 0 and 1 or 0
last = last + 2
local asked, answered = whole(last - 1), whole(last)
call('HSET', S, 'last_seq', answered, 'said', said,
  'tokens', whole(tonumber(get('tokens')) + tonumber(tokens)),
  'm:'..asked, question, 't:'..asked, 'complete',
  'm:'..answered, reply, 't:'..answered, 'pending', 'h:'..answered, holder)
if timezone ~= '' then call('HSET', S, 'timezone', timezone) end
if has_id == '1' then call('HSET', S, 'c:'..client_id, asked) end
touch(moment)
call('ZADD', L, whole(at + tonumber(lease)), answered)
changed(asked, 'n', at)
changed(answered, 'n', at)
local others, own = {}, get('member')
for _, member in ipairs(call('ZRANGEBYLEX', DIRTY, '['..theirs, '('..theirs..'\\255')) do
  if member ~= own then table.insert(others, member) end
end
return {'new', state(), line(asked), line(answered), is_next, others}
"""
)

# seq of the question, holder, lease, moment, tokens that were lost, question, reply
TAKE_UP = (
    _COMMON
    + """
local asked, holder, lease, moment, tokens, question, reply = unpack(ARGV)
if call('EXISTS', S) == 0 then return false end
local at, answered = now(), whole(tonumber(asked) + 1)
if get('t:'..answered) == 'pending' and get('h:'..answered) == holder then return state() end
if get('t:'..answered) and not is_free(answered, at) then return false end
call('HSET', S, 'm:'..asked, question, 't:'..asked, 'complete',
  'm:'..answered, reply, 't:'..answered, 'pending', 'h:'..answered, holder,
  'tokens', whole(math.max(0, tonumber(get('tokens')) - tonumber(tokens))))
call('HDEL', S, 'x:'..answered)
touch(moment)
call('ZADD', L, whole(at + tonumber(lease)), answered)
changed(asked, 'w', at)
changed(answered, 'w', at)
return state()
"""
)

# seq of the reply, error
IS_NEXT = (
    _COMMON
    + """
if call('EXISTS', S) == 0 then return -1 end
local ended, alive = lapse(tonumber(ARGV[1]), ARGV[2], now())
return {ended, alive}
"""
)

PENDING = (
    _COMMON
    + """
return call('ZCARD', L)
"""
)

# error
LAPSE = (
    _COMMON
    + """
if call('EXISTS', S) == 0 then return 0 end
local ended = lapse(math.huge, ARGV[1], now())
return ended
"""
)

# seq, holder, lease
RENEW = (
    _COMMON
    + """
local seq, holder, lease = unpack(ARGV)
if call('EXISTS', S) == 0 then return -1 end
if get('t:'..seq) ~= 'pending' or get('h:'..seq) ~= holder then return 0 end
call('ZADD', L, whole(now() + tonumber(lease)), seq)
return 1
"""
)

# seq, holder, status, text, what comes with it, tokens, moment
END = (
    _COMMON
    + """
local seq, holder, status, text, with_it, tokens, moment = unpack(ARGV)
if call('EXISTS', S) == 0 then return -1 end
if get('h:'..seq) ~= holder then return 0 end
if get('t:'..seq) == status and get('m:'..seq) == text then return state() end
if get('t:'..seq) ~= 'pending' then return 0 end
call('HSET', S, 'm:'..seq, text, 't:'..seq, status, 'x:'..seq, with_it,
  'tokens', whole(tonumber(get('tokens')) + tonumber(tokens)))
touch(moment)
call('ZREM', L, seq)
changed(seq, 'n', now())
return state()
"""
)

LOOK = (
    _COMMON
    + """
if call('EXISTS', S) == 0 then return false end
return {get('user'), get('created'), call('HLEN', D)}
"""
)

# first seq, last seq
LINES = (
    _COMMON
    + """
if call('EXISTS', S) == 0 then return false end
local lines = {}
for seq = math.max(tonumber(ARGV[1]), tonumber(get('first'))), tonumber(ARGV[2]) do
  table.insert(lines, line(seq))
end
return {state(), lines}
"""
)

NEWS = (
    _COMMON
    + """
if call('EXISTS', S) == 0 or call('HLEN', D) == 0 then return false end
local lines, at, changes = {}, now(), call('HGETALL', D)
for place = 1, #changes, 2 do
  local until_ = call('ZSCORE', L, changes[place])
  local left = until_ and whole(math.max(0, tonumber(until_) - at)) or '0'
  table.insert(lines, {changes[place + 1], left, line(changes[place])})
end
return {state(), lines}
"""
)

# created, covered, revision, time to live, messages that are kept, then seq and version in turn
SETTLED = (
    _COMMON
    + """
local created, covered, revision, time_to_live, kept = unpack(ARGV, 1, 5)
if get('created') ~= created then return 0 end
for place = 6, #ARGV, 2 do
  local seq = ARGV[place]
  if call('HGET', D, seq) == ARGV[place + 1] then
    call('HDEL', D, seq)
    call('HDEL', S, 'x:'..seq)
  end
end
call('HSET', S, 'covered', covered, 'revision', revision)
local member, last = get('member'), tonumber(get('last_seq'))
if call('HLEN', D) > 0 then return 0 end
call('ZREM', DIRTY, member)
call('ZREM', SINCE, member)
if call('ZCARD', L) > 0 then return 0 end
if get('stale') then
  drop()
  return 1
end
local first = tonumber(get('first'))
while last - first >= tonumber(kept) do
  call('HDEL', S, 'm:'..first, 't:'..first, 'x:'..first, 'h:'..first)
  first = first + 1
end
call('HSET', S, 'first', whole(first))
if tonumber(covered) < last then
  if call('TTL', S) == -1 then call('ZADD', WAITING, 0, member) end
  return 0
end
if call('TTL', S) ~= -1 then return 0 end
local mine, at = get('mine'), now()
call('PEXPIRE', S, time_to_live)
call('ZREM', WAITING, member)
call('ZREMRANGEBYSCORE', mine, '-inf', whole(at))
call('ZADD', mine, whole(at + time_to_live * 1000), member)
if call('ZCOUNT', mine, '+inf', '+inf') == 0 then call('PEXPIRE', mine, time_to_live) end
return 0
"""
)

# created, then seq and version in turn: drops a copy of which SQL holds all, under other numbers
MOVED = (
    _COMMON
    + """
if get('created') ~= ARGV[1] then return 1 end
for place = 2, #ARGV, 2 do
  if call('HGET', D, ARGV[place]) == ARGV[place + 1] then call('HDEL', D, ARGV[place]) end
end
if call('HLEN', D) > 0 then return 0 end
drop()
return 1
"""
)

# created; whether what is not in SQL goes, too
DROP = (
    _COMMON
    + """
if get('created') ~= ARGV[1] then return 0 end
if ARGV[2] == '1' or (call('HLEN', D) == 0 and call('ZCARD', L) == 0) then
  drop()
  return 1
end
call('HSET', S, 'stale', '1')
return 0
"""
)

# nonce
RESERVE = (
    _COMMON
    + """
call('SET', N, ARGV[1], 'NX', 'EX', 60)
return call('GET', N)
"""
)

# nonce
WITHHOLD = (
    _COMMON
    + """
if call('EXISTS', S) == 1 then
  if call('HLEN', D) > 0 or call('ZCARD', L) > 0 then return 0 end
  drop()
end
call('SET', N, ARGV[1], 'EX', 60)
return 1
"""
)

FORGET_LOADER = (
    _COMMON
    + """
return call('DEL', N)
"""
)

# nonce, number of leases, then seq and lease in turn, then names and values in turn
INSTALL = (
    _COMMON
    + """
if call('GET', N) ~= ARGV[1] or call('EXISTS', S) == 1 then return 0 end
local at, leases = now(), tonumber(ARGV[2])
call('DEL', N, D, L)
for place = 3, 2 + 2 * leases, 2 do
  call('ZADD', L, whole(at + tonumber(ARGV[place + 1])), ARGV[place])
end
for place = 3 + 2 * leases, #ARGV, 2 do call('HSET', S, ARGV[place], ARGV[place + 1]) end
stays()
if leases == 0 then call('ZADD', WAITING, 0, get('member')) end
return 1
"""
)

# KEYS[1]: what a user's sessions are named in
THEIRS = """
local time = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', time[1] * 1000000 + time[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""

# KEYS[1]: what has names and times; age in microseconds, how many
LEFT = """
local time = redis.call('TIME')
local before = string.format('%.0f', time[1] * 1000000 + time[2] - ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, ARGV[2])
"""
