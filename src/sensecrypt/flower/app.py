"""Flower's ClientApp with `sensecrypt_mod` as its outermost mod, so that an app changes one import only."""

from __future__ import annotations

from flwr import clientapp
from flwr.clientapp.typing import Mod

from sensecrypt.flower.mod import sensecrypt_mod


class ClientApp(clientapp.ClientApp):
    """Flower's ClientApp; what its train functions return is encrypted."""

    def __init__(self, mods: list[Mod] | None = None) -> None:
        """Create an app; its own mods act inside `sensecrypt_mod`."""
        super().__init__(mods=[sensecrypt_mod, *(mods or [])])
