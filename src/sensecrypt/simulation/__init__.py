"""Simulated devices: the device clock, cost models, the null cipher and the training cache."""
