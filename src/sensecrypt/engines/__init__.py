"""What carries the protocol: `local` plays all parties on one machine."""
