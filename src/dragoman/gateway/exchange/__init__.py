"""One exchange: a client's request, the calls to a provider, and the answer on its way back."""
