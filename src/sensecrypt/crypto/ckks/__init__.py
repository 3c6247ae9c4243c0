"""CKKS through TenSEAL: `public` and `secret`."""
