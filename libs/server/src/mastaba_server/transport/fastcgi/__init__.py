"""The FastCGI protocol: records, parameters, and requests on a connection."""
