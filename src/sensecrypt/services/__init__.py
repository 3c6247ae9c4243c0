"""Parties of the protocol as network services."""
