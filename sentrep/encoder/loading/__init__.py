"""Where an encoder comes from and goes to: hub, folders, checkpoints, configurations."""
