"""Everything that knows Django: people, pages, storage, the two doors (HTTP and Celery)."""
