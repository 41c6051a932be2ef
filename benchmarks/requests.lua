-- Asks for the paths of a file in turn; tells the figures of the run as one line of JSON.
-- Each line of the file: the path, a tab, the value of If-None-Match or nothing.

local requests = {}
local position = 0

function init(arguments)
  for line in io.lines(arguments[1]) do
    local path, etag = line:match("^([^\t]*)\t(.*)$")
    local headers = {}
    if etag ~= "" then headers["If-None-Match"] = etag end
    requests[#requests + 1] = wrk.format("GET", path, headers)
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "longest": %d, "errors": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    latency.max, errors.connect + errors.read + errors.write + errors.timeout + errors.status))
end
