"""The package's version, read by the build and by `sensecrypt --version`."""

__version__ = "0.2.0"
