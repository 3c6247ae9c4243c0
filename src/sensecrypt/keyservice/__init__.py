"""The key service: what others ask of it, inside this process, and behind HTTPS."""
