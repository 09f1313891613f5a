"""Dragoman."""
