"""Deciding: what starts where, when, and why the rest waits. Pure and deterministic."""
