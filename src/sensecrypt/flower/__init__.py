"""SenseCrypt in an existing Flower app: a wrapper around its strategy, and a mod around its training.

    from sensecrypt.flower import ClientApp                       # in place of Flower's
    strategy = SenseCrypt(strategy, key_service="in-process")     # in the ServerApp

The rest of the app is unchanged. To protect only one of several train functions, use Flower's own ClientApp and
`@app.train(mods=[sensecrypt_mod])`. `docs/flower.md` says what each side sees.
"""

from __future__ import annotations

from sensecrypt.errors import MissingExtra
from sensecrypt.extras import missing_modules

if missing_modules("flower"):
    raise MissingExtra("sensecrypt.flower", "flower")

from sensecrypt.flower.app import ClientApp
from sensecrypt.flower.mod import sensecrypt_mod
from sensecrypt.flower.wrapper import SenseCrypt

__all__ = ["ClientApp", "SenseCrypt", "sensecrypt_mod"]
