"""The canonical model: frozen values of what at least two protocols can express, and the ledger of what one of them
cannot. Member names, defaults and limits of protocols are in `protocols`, adaptation rules in `rules`."""
