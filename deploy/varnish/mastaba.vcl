# Varnish (7.1 or later) in front of Mastaba over HTTP (mastaba --http), as /etc/varnish/default.vcl.
# It needs the module xkey (Debian: varnish-modules).
#
# What is cached, and for how long, is said by Mastaba: cache_control of layers, global.caching of
# services.json. Of simultaneous requests for the same response, Varnish sends one to Mastaba.

vcl 4.1;

import std;
import xkey;

backend mastaba {
    .host = "127.0.0.1";
    .port = "8080";
    .first_byte_timeout = 60s;
    .probe = {
        .url = "/healthcheck/ready";
        .interval = 2s;
        .timeout = 5s;
        .window = 5;
        .threshold = 3;
        .initial = 2;
    }
}

# Who may purge, if the secret is right: the machines on which Mastaba runs.
acl purgers {
    "localhost";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purgers
            || req.http.X-Purge-Secret
                != regsub(std.fileread("/etc/varnish/mastaba-purge-secret"), "\s+$", "")) {
            return (synth(403, "Forbidden"));
        }
        if (!req.http.Surrogate-Key) {
            return (synth(400, "Surrogate-Key is missing"));
        }
        return (synth(200, "Purged " + xkey.purge(req.http.Surrogate-Key)));
    }
    # Also without the prefix, nothing else is public. Nor are the paths of operators, also behind a
    # segment ~… for a credential, or any name of a service with encoded letters: Varnish does not decode.
    if (req.url !~ "^/maps/"
        || req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?(?:healthcheck|admin|metrics)(?:/|\?|$)"
        || req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?auth/(?:[^?]*%|/*(?:~[^/?]*/+)?check)"
        || req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?[^/?]*%(?:2[def]|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])") {
        return (synth(404, "Not Found"));
    }
    if (req.restarts == 0) {
        unset req.http.Mastaba-Stale;
        # Mastaba sets no cookies; those of other programs on the host do not matter.
        unset req.http.Cookie;
    }
    # See vcl_hit.
    if (req.http.Mastaba-Stale == "no") {
        set req.grace = 0s;
    } else {
        set req.grace = 1y;
    }
    if ((req.method != "GET" && req.method != "HEAD") || req.http.Authorization) {
        return (pass);
    }
    return (hash);
}

sub vcl_hash {
    # As the client wrote it: every other spelling is another key, but never a wrong response.
    # Responses do not depend on the host.
    hash_data(req.url);
    return (lookup);
}

sub vcl_hit {
    # Fresh, or stale-while-revalidate: Varnish fetches it in the background.
    if (obj.ttl >= 0s || obj.ttl + std.duration(obj.http.Mastaba-While-Revalidate, 0s) >= 0s) {
        return (deliver);
    }
    # Only stale-if-error is left: first try to fetch it, and come back if that fails.
    if (!req.http.Mastaba-Stale && std.healthy(req.backend_hint)) {
        set req.http.Mastaba-Stale = "no";
        return (restart);
    }
    return (deliver);
}

sub vcl_backend_fetch {
    set bereq.url = regsub(bereq.url, "^/maps", "");
}

sub vcl_backend_response {
    if (beresp.status >= 500) {
        if (bereq.is_bgfetch || bereq.http.Mastaba-Stale == "no") {
            return (abandon);
        }
        set beresp.uncacheable = true;
        set beresp.ttl = 1s;
        return (deliver);
    }
    set beresp.http.xkey = beresp.http.Surrogate-Key;
    # Varnish reads stale-while-revalidate itself, and uses a default without it.
    if (beresp.http.Cache-Control !~ "stale-while-revalidate=[0-9]") {
        set beresp.grace = 0s;
    }
    set beresp.http.Mastaba-While-Revalidate = "" + beresp.grace + "s";
    if (beresp.http.Cache-Control ~ "stale-if-error=[0-9]") {
        set beresp.http.Mastaba-If-Error =
            regsub(beresp.http.Cache-Control, "^.*stale-if-error=([0-9]+).*$", "\1s");
        if (std.duration(beresp.http.Mastaba-If-Error, 0s) > beresp.grace) {
            set beresp.grace = std.duration(beresp.http.Mastaba-If-Error, 0s);
        }
        unset beresp.http.Mastaba-If-Error;
    }
    # How long the ETag is kept for revalidation.
    set beresp.keep = 1d;
    if (beresp.status == 404 && !beresp.http.Cache-Control) {
        set beresp.ttl = 10s;
        set beresp.grace = 0s;
        set beresp.keep = 0s;
    } else if (!beresp.http.Cache-Control) {
        # Without it, nothing is cached.
        set beresp.uncacheable = true;
        set beresp.ttl = 120s;
        return (deliver);
    }
}

sub vcl_backend_error {
    if (bereq.http.Mastaba-Stale == "no") {
        return (abandon);
    }
}

sub vcl_synth {
    if (resp.status == 503 && req.http.Mastaba-Stale == "no") {
        set req.http.Mastaba-Stale = "yes";
        return (restart);
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
    unset resp.http.Mastaba-While-Revalidate;
}
