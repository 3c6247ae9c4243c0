"""What an attacker learns. An attack is a function of an `Observation` and never of the truth; scoring is separate."""
