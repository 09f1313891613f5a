"""The site of the documents: `conf.py` is what its generator reads, `navigation` what it shows at the side."""
