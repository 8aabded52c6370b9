"""What a policy would have done with a workload: the plan's own code, over recorded jobs."""
