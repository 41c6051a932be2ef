"""What all protocols share: parameters, geometries, numbers and pages."""
