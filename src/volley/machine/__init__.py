"""What the machine is, read once for all who ask: GPUs, buses, distribution, MPI, UCX, line rates."""
