"""What clients may still ask for: buckets, quotas, and what is taken from them."""
