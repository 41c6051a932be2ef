"""How requests arrive: the listening socket, FastCGI, HTTP, and the worker processes.

`open_listener` opens the socket, `Supervisor` forks the workers, and each worker runs a `Server`
with the WSGI application on that socket. The server creates connections of one protocol. These
modules serve any WSGI application and know nothing of maps.
"""
