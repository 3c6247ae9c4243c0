"""Imported by the processes of a service under test: key files that they write are cheap to decrypt.

What a key file costs is tested in `tests/crypto/test_keyfile.py`; here it would be half a second per run and service.
"""

from sensecrypt.crypto import passphrase

passphrase.SCRYPT = {"n": 2**10, "r": 8, "p": 1}
