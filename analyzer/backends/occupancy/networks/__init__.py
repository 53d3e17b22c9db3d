"""Networks by name, with the sizes that apply to each; they are built on the meta device, which takes no memory."""
