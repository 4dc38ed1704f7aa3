"""What the daemon is compared with. Each module runs in the peer's own environment, as `python -m`."""
