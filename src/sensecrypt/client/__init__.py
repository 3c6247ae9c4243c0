"""One client: train, score, choose, encrypt, and what it agrees to."""
