"""What the services of OGC protocols share: parameters, POST bodies, metadata, feature info."""
