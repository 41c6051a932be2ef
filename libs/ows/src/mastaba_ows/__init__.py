"""What the services of OGC protocols share: parameters, XML, POST bodies, feature info."""
