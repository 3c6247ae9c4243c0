"""Paillier: `public`, its table (`fixedbase`), precomputed randomizers (`randomizers`), and `secret`."""
