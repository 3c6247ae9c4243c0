"""Runs on disk, and what came of them."""
