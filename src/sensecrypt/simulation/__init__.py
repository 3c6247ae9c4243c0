"""Work that is charged instead of done, and clocks of devices that are not here."""
