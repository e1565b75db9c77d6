"""``volley setup``: get a CUDA-aware MPI in the cheapest way that works here, and prove it by a transfer."""
