"""A fleet as processes of this machine, for trying it out: key service, SuperLink, SuperNodes."""
