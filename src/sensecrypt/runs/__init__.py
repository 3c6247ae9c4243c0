"""Runs on disk, and their results."""
