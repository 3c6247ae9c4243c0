"""What clients, aggregator and key server say to each other and do, without any input or output of their own."""
