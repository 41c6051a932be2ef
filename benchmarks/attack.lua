-- Shows a wrong key in each request; see benchmarks/attack.py.
-- Arguments: a file of paths, the number of addresses, and milliseconds between two requests of
-- a connection.

local paths = {}
local position = 0
local addresses, pause

function init(arguments)
  for line in io.lines(arguments[1]) do paths[#paths + 1] = line end
  addresses, pause = tonumber(arguments[2]), tonumber(arguments[3])
end

function delay() return pause end

function request()
  position = position + 1
  local number = position % addresses
  local address = string.format("10.1.%d.%d", math.floor(number / 256), number % 256)
  return wrk.format("GET", paths[position % #paths + 1], {["X-Forwarded-For"] = address})
end
