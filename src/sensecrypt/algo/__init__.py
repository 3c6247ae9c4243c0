"""The paper's mathematics: one file a section, pure functions over NumPy arrays, no cryptography."""
