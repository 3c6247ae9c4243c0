"""The key service: its interface, and its implementations in this process and over HTTPS."""
