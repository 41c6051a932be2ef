"""What applications need of HTTP: queries, conditional requests, CORS, responses, HTML."""
