"""The one loop of every run, whatever carries messages and wherever sums are decrypted."""
