"""Prices, context windows and output limits of models, as data (decisions 25 and 26). Rates are integer pico-dollars,
costs integer nano-dollars. An unknown value is None, never 0. This package uses no clock, socket or directory."""
