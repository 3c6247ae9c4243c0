"""Exact additive ring-LWE. Read in this order: `arithmetic`, `packing`, `sampling`, `public`, `secret`."""
