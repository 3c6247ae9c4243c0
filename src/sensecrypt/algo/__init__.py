"""The paper's mathematics: one file per section, pure functions over NumPy arrays, no cryptography."""
