"""Other tools' logs: a file for each kind whose text is no table, and one for what is special in nvidia-smi's."""
