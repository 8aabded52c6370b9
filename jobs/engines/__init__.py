"""Ways to run a job: over SSH today. One contract for all of them."""
