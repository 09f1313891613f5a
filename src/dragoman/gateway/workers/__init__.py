"""Workers: state that the worker processes of one gateway share, and the messages between them."""
