"""CKKS, implemented by TenSEAL: `public` and `secret`."""
