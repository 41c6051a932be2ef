"""Targets of requests that front servers must not pass on, and similar ones that they must."""

from __future__ import annotations

BLOCKED = (
    *("/healthcheck", "/healthcheck/info", "/admin", "/admin/layers", "/metrics", "/admin?x=1"),
    # A segment for a credential, which the server removes.
    *("/~/admin", "/~mk_x/metrics", "/~/healthcheck/info", "/admin/~/layers", "/admin/~"),
    *("/%7e/admin", "/%7E/metrics", "/%7Emk_x/healthcheck", "/~%6dk_x/admin", "/~s1.a.b/admin"),
    # Slashes and encoded letters.
    *("//admin", "/~//admin", "//~/admin", "///~x///metrics", "/~x//healthcheck//info"),
    *("/%61dmin", "/~/%61dmin", "/adm%69n", "/%68ealthcheck", "/%7e/%6Detrics", "/metric%73"),
    *("/./admin", "/wms/../admin", "/~/./admin", "/%2e/admin", "/wms/%2e%2e/metrics"),
    *("/%2Fadmin", "/~%2Fadmin", "/~x%2fmetrics", "/healthcheck%2Finfo"),
)
"""Behind the prefix."""

CHECKS = (
    *("/auth/check", "/auth/check?x=1", "/~/auth/check", "/auth/~/check", "/~mk_x/auth/check"),
    *("/%7e/auth/check", "/auth/%7E/check", "//auth//check", "/~//auth/check", "/auth//~/check"),
    *("/%61uth/check", "/~/%61uth/check", "/auth/%63heck", "/auth/./check", "/auth%2Fcheck"),
)
"""The check of caches, behind the prefix: only front servers ask it."""

ALLOWED = (
    *("/wms", "/wms?REQUEST=GetCapabilities", "/wms/~mk_x?REQUEST=GetCapabilities", "/~mk_x/"),
    *("/tms/~mk_x/1.0.0", "/tms/%7Emk_x/1.0.0", "/~mk_x/tms/1.0.0/METRICS/1/2/3.png"),
    *("/tms/1.0.0/%C3%89t%C3%A9%20%C3%A0%201%20m", "/tms/1.0.0/admin/1/2/3.png"),
    *("/administration", "/wms?x=/maps/admin", "/wms?x=/maps/~/admin", "/tms/1.0.0/%41/1/2/3.png"),
)
"""What clients may ask for, behind the prefix."""
