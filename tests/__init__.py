"""Importable, so that bench/ can use the lab."""
