"""How long each answer took, in the header Server-Timing (W3C)."""

import time

from mastaba import hookimpl


@hookimpl
def wsgi_middleware(site):
    def wrap(application):
        def timed(environ, start_response):
            begin = time.perf_counter()

            def start(status, headers, *rest):
                milliseconds = (time.perf_counter() - begin) * 1000
                timing = ("Server-Timing", f"total;dur={milliseconds:.1f}")
                return start_response(status, [*headers, timing], *rest)

            return application(environ, start)

        return timed

    return wrap
