"""volley beside other programs on one machine, launch by launch: ``make bench-peers PEERS=DIR`` and docs/peers.md.

The programs are not part of volley: DIR holds those that somebody built.  ``table`` says what is compared with what,
``readers`` read what the programs print, ``rounds`` launches, ``page`` makes docs/peers.md from the records.
"""
