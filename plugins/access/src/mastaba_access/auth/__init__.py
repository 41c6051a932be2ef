"""The service ``auth``, which answers caches that ask whether a request may be answered."""
