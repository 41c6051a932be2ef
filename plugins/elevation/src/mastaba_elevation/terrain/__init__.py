"""The service ``terrain``: tiles of heights for 3D and hillshade clients (elevation.md 4 to 6)."""
