"""What a lab cluster does: deciding, dispatching, recovering. Knows nothing of Django."""
