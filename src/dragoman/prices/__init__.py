"""Prices, context windows and output limits of models, as data (decisions 25 and 26). Rates are whole pico-dollars,
costs whole nano-dollars; an unknown value is None and never 0. Nothing here has a clock, a socket or a directory."""
