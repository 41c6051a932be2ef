"""Who a client is: credentials, principals, grants, and the gate that decides."""
