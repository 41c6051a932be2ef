"""Heights of points, lines, grids and areas from datasets of layers."""
