"""Benchmarks of speed and memory against named peers, measured in one run; medians of repeats."""
