"""The coordinator: the loop of every run, for any transport and any key service."""
