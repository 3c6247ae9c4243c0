"""The protocol of clients, aggregator and key server: messages and computations, without input or output."""
