"""A ServerApp: it adds what clients send, and has no key to read it."""

from sensecrypt.transports.flower import server_app

app = server_app()
