"""Code that several benchmarks share: ``points`` (sizes on transports) and ``matrix`` (pairs of ranks or GPUs)."""
