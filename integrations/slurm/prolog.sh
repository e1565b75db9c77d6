#!/bin/sh
# Prolog or epilog of Slurm: drains the node if volley check fails there. The limits are of good nodes of this site.
# slurm.conf: PrologFlags=Alloc, because srun waits only MessageTimeout (10 s) for a node that begins a job step;
# PrologEpilogTimeout=90.
PATH=${PATH:+$PATH:}/opt/volley/bin:/usr/local/bin:/usr/bin:/bin # Slurm may give a prolog none
command -v volley >/dev/null || { echo "volley is not in $PATH: the node was not checked" >&2; exit 0; }

# Other jobs on the node would look like a fault, and the check would disturb them.
others=$(squeue --noheader --states=R,CG --nodelist="$SLURMD_NODENAME" --format=%A 2>/dev/null | grep -vx "$SLURM_JOB_ID")
[ -z "$others" ] || { echo "busy, not checked" >&2; exit 0; }

limits=/etc/volley/limits.json
set -- --budget 45
[ -r "$limits" ] && set -- "$@" --expect "$limits"

# without the variables of the job: this is a check of one machine
env -i PATH="$PATH" volley check "$@" --format json --quiet --output /dev/null >/dev/null
[ $? = 1 ] || exit 0 # what is undecided, or not possible, is no reason to drain a node
# Slurm drains a node whose prolog or epilog fails; this gives the reason first
[ -z "$SLURMD_NODENAME" ] || scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="volley check: failed"
exit 1
