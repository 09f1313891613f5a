"""Workers: state that the worker processes of one gateway share, and the channel between them."""
