"""SenseCrypt inside an existing Flower app: a wrapper around its strategy, and a mod around its training.

    app = ClientApp(); @app.train(mods=[sensecrypt_mod])
    strategy = SenseCrypt(FedAvg(), key_service="in-process")

Everything else of the app stays as it is. `docs/flower.md` says what each side sees.
"""

from __future__ import annotations

import importlib.util

from sensecrypt.errors import MissingExtra

if any(importlib.util.find_spec(module) is None for module in ("flwr", "httpx")):
    raise MissingExtra("sensecrypt.flower", "flower")

from sensecrypt.flower.mod import sensecrypt_mod
from sensecrypt.flower.wrapper import SenseCrypt

__all__ = ["SenseCrypt", "sensecrypt_mod"]
