"""Models to predict for: built in, by Hugging Face configuration, or the user's own. Two files load torch when imported."""
