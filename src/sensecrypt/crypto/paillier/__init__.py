"""Paillier: `public`, its table (`fixedbase`), randomness made ahead (`randomizers`), and `secret`."""
