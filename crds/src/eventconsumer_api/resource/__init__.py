"""What is made from the resource: its definition, its reference, remedies of its conditions, its capacity."""
