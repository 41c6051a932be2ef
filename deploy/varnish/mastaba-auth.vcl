# Varnish (7.1 or later) in front of Mastaba with access rules, over HTTP (mastaba --http). Instead of
# mastaba.vcl. Varnish asks Mastaba who sends a request, also if it has the response: each request
# first goes to the check, and is then restarted.
#
# services.json: "auth": {"enabled": true, "prefix": "/maps"}
# server.json:   "plugins": {"access": {"trusted_fronts": ["127.0.0.1"], …}}
#
# A log without credentials:
#   varnishncsa -F '%h %{X-Mastaba-Grant}i %t "%m %{X-Mastaba-Uri}i %H" %s %b'
# The shared memory log contains them; varnishd -p vsl_mask=-ReqURL,-ReqHeader,-BereqURL,-BereqHeader
# leaves them out.

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
    # The check is ours alone; sessions and signatures are for clients.
    if (req.url !~ "^/maps/"
        || req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?(?:healthcheck|admin|metrics)(?:/|\?|$)"
        || req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?[^/?]*%(?:2[def]|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])"
        || (req.url ~ "(?i)^/maps/+(?:(?:~|%7e)[^/?]*/+)?auth(?:/|\?|$)"
            && req.url !~ "^/maps/auth/(?:session|sign)(?:\?|$)")) {
        return (synth(404, "Not Found"));
    }
    if (req.restarts == 0) {
        # Only the check may say these.
        unset req.http.X-Mastaba-Class;
        unset req.http.X-Mastaba-Uri;
        unset req.http.X-Mastaba-Grant;
        unset req.http.Forwarded;
        unset req.http.X-Forwarded-Uri;
        unset req.http.X-Forwarded-Method;
        unset req.http.X-Original-Method;
        set req.http.X-Original-URI = req.url;
        set req.http.X-Original-Referer = req.http.Referer;
        set req.http.X-Mastaba-Stage = "check";
        # The body is sent after the restart.
        if (req.method == "POST" && !std.cache_req_body(1MB)) {
            return (synth(413, "Content Too Large"));
        }
        return (pass);
    }
    if ((req.method != "GET" && req.method != "HEAD") || req.url ~ "^/maps/auth/") {
        return (pass);
    }
    return (hash);
}

sub vcl_hash {
    # Who may see the same, and the address without the credential. A request that is not answered
    # from the cache goes on with its credential, and Mastaba checks it again.
    hash_data(req.http.X-Mastaba-Class);
    hash_data(req.http.X-Mastaba-Uri);
    return (lookup);
}

sub vcl_backend_fetch {
    if (bereq.http.X-Mastaba-Stage == "check") {
        set bereq.url = "/auth/check";
        set bereq.method = "GET";
        unset bereq.body;
    } else {
        set bereq.url = regsub(bereq.url, "^/maps", "");
        unset bereq.http.X-Original-URI;
        unset bereq.http.X-Original-Referer;
    }
    unset bereq.http.X-Mastaba-Stage;
}

sub vcl_backend_response {
    if (beresp.status >= 500) {
        set beresp.uncacheable = true;
        set beresp.ttl = 1s;
        return (deliver);
    }
    set beresp.http.xkey = beresp.http.Surrogate-Key;
    set beresp.grace = 0s;
    set beresp.keep = 1d;
    if (!beresp.http.Cache-Control
        || beresp.http.Cache-Control ~ "no-cache|no-store"
        || beresp.http.Set-Cookie) {
        # Documents contain the addresses of one client; nobody else may get them. What a client may
        # not see is missing only as long as the rules say so.
        set beresp.uncacheable = true;
        set beresp.ttl = 120s;
    } else if (beresp.status == 404) {
        set beresp.ttl = 10s;
        set beresp.keep = 0s;
    }
    # What is private to a class of clients is kept for the class.
    return (deliver);
}

sub vcl_deliver {
    if (req.http.X-Mastaba-Stage == "check") {
        if (resp.status == 200 && resp.http.X-Mastaba-Class && resp.http.X-Mastaba-Uri) {
            set req.http.X-Mastaba-Class = resp.http.X-Mastaba-Class;
            set req.http.X-Mastaba-Uri = resp.http.X-Mastaba-Uri;
            set req.http.X-Mastaba-Grant = resp.http.X-Mastaba-Grant;
            unset req.http.X-Mastaba-Stage;
            return (restart);
        }
        if (resp.status == 200) {
            # Another program answers there.
            set resp.status = 503;
        } else if (resp.http.X-Mastaba-Status) {
            set resp.status = std.integer(resp.http.X-Mastaba-Status, 403);
            unset resp.http.X-Mastaba-Status;
        }
        return (deliver);
    }
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
}
