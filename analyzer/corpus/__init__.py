"""What the black box is fitted to: profiles of corpora, of folders of traces, and of runs that wandb or TensorBoard kept."""
