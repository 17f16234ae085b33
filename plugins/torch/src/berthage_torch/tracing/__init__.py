"""From a module to an `OpGraph`: fake tensors, forward and backward, repeated layers copied."""
