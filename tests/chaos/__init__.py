"""Random faults on the local cluster, and a check from storage alone that no event is missing or there twice."""
