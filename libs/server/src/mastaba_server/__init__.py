"""A prefork server for WSGI applications, over FastCGI and HTTP. Knows nothing of maps.

`mastaba_server.transport` has the connections of one process, `mastaba_server.processes` the
supervisor and what its workers share. An application may answer some GET requests without a WSGI
call; see `mastaba_server.transport.connection.Owner`.
"""
