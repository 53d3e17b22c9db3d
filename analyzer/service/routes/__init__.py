"""The service's HTTP API: one file per kind of thing that is asked for."""
