"""Services: their base class, what several of them share, and the services of the core."""
