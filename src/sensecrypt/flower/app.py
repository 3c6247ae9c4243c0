"""Flower's ClientApp with our mod as its outermost: one import that is changed, and no function."""

from __future__ import annotations

from flwr import clientapp
from flwr.clientapp.typing import Mod

from sensecrypt.flower.mod import sensecrypt_mod


class ClientApp(clientapp.ClientApp):
    """As Flower's; whatever its train functions return is encrypted."""

    def __init__(self, mods: list[Mod] | None = None) -> None:
        """With the app's own mods inside ours."""
        super().__init__(mods=[sensecrypt_mod, *(mods or [])])
