"""Attacks on what clients send. An attack is a function of an `Observation`; only scoring knows the truth."""
