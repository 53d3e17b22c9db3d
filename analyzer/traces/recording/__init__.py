"""`epochcast record`: a command is run while an agent samples, and a trace of it written."""
