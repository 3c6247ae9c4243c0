"""A ServerApp: it adds the uploads, and has no key to decrypt them."""

from sensecrypt.transports.flower import server_app

app = server_app()
