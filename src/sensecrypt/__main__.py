"""`python -m sensecrypt`."""

from sensecrypt.cli import main

main(prog_name="sensecrypt")
