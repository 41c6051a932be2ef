"""Who a client is, and what it may see: what the core and a gate agree on."""
