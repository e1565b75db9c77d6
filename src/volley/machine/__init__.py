"""Facts about the machine, read in one place: GPUs, buses, distribution, MPI, UCX, line rates."""
