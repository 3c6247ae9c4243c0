"""The transport on one machine: clients in worker processes, coordinator and key service in the main process."""
