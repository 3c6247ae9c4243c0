"""Transports of messages between coordinator and clients: on one machine, or by Flower."""
