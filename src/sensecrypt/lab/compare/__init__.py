"""Methods next to each other: the same clients, data and devices, one row a method."""
