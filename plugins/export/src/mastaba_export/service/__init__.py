"""The service that takes orders: OGC API - Processes 1.0 (18-062r2)."""
