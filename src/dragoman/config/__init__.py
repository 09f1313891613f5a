"""dragoman.toml to `Settings`; every error names the file, the line, the key and the remedy."""
