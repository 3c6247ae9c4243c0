"""How messages travel between coordinator and clients: within one machine, or by Flower."""
