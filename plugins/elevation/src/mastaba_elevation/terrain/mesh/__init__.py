"""Tiles of quantized mesh 1.0, for globes (elevation.md 5)."""
