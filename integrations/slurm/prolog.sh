#!/bin/sh
# Prolog or epilog of Slurm: drains the node if volley check fails there. The limits are of good nodes of this site.
PATH=${PATH:+$PATH:}/opt/volley/bin:/usr/local/bin:/usr/bin:/bin # Slurm may give a prolog none
command -v volley >/dev/null || { echo "volley is not in $PATH: the node was not checked" >&2; exit 0; }
limits=/etc/volley/limits.json
set -- --budget 20
[ -r "$limits" ] && set -- "$@" --expect "$limits"

# without the variables of the job: this is a check of one machine
env -i PATH="$PATH" volley check "$@" --format nhc --quiet --output /dev/null >/dev/null
case $? in
0 | 4) exit 0 ;; # passed, or undecided, which is no reason to drain a node
1) reason="volley check: failed" ;;
3) reason="volley check: not possible" ;;
*) reason="volley check: did not run" ;;
esac
# Slurm drains a node whose prolog or epilog fails; this gives the reason first
[ -z "$SLURMD_NODENAME" ] || scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="$reason"
exit 1
