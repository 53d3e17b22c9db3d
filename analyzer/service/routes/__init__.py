"""The service's HTTP API: one file per resource."""
