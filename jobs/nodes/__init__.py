"""Reaching a node: transports, what a node has, and what went wrong in plain words."""
