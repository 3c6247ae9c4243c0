"""Everything on one machine: clients in worker processes, coordinator and key service in this one."""
