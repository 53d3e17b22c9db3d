"""Other methods than ours and the papers', to compare with; each package registers its own where the product looks."""
