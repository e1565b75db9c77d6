"""``volley doctor``: every layer between this machine and a CUDA-aware MPI, tried in order.

Two halves that share nothing but the facts (``facts/``): ``capture`` and ``probes/`` try things and write down what
happened; ``checks/`` are pure functions from those facts to findings.  So a strange machine becomes a permanent test.
"""
