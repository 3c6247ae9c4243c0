"""Paillier: `public`, its table (`fixedbase`), randomness made ahead (`obfuscators`), and `secret`."""
