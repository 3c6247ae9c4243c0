"""The public side works where the secret side cannot even be imported."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys

SECRET = ("secret", "secretschemes", "keys", "keyfile")

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sensecrypt.crypto.") and name.split(".")[-1] in SECRET:
            raise ImportError(f"{name} is not for this process")

sys.meta_path.insert(0, Refuse())
import sensecrypt
import sensecrypt.crypto.publicfile, sensecrypt.crypto.schemes, sensecrypt.crypto.paillier.randomizers
public = sensecrypt.PublicKey(int(sys.argv[1]), int(sys.argv[2]), "insecure-test")
total = public.accumulator(1)
total.add(public.encrypt([1]))
total.add(public.encrypt([2]))
print(public.to_integers(total.result())[0])
try:
    sensecrypt.generate_keypair
except ImportError as error:
    print("refused:", error)
"""


def test_adding_needs_no_secret_module(insecure):
    public, secret = insecure
    command = [sys.executable, "-c", CODE, str(public.n), str(public.h)]
    number, refused = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert secret.decrypt(public.from_integers([int(number)]), 1).tolist() == [3]
    assert refused == "refused: sensecrypt.crypto.keys is not for this process"
