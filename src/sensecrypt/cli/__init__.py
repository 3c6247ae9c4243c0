"""The `sensecrypt` command."""

from sensecrypt.cli.app import main as main
