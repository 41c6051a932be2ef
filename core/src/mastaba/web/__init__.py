"""The WSGI application: requests, their routing to services, and responses."""
