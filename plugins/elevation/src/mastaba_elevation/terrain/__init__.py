"""Terrain for 3D globes and web maps."""
