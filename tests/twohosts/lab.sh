#!/bin/sh
# Two pretend hosts joined by a wire, or several joined by a switch, alive until standard input ends.  Runs as process 1 of a process namespace of its
# own (pretend_hosts.py starts it so), which is why nothing that was started in a host outlives it.
# SPDX-License-Identifier: Apache-2.0
#   lab.sh FOLDER RELAY DELAY_NS RATE_BPS
#   lab.sh FOLDER switch HOSTS …
# FOLDER/hosts is the hosts file, "ADDRESS NAME" a line, localhost first; FOLDER/NAME.cores is each host's processors,
# FOLDER/NAME.hidden the device nodes of the GPUs that it does not have.
# HOSTS: how many of the hosts are on each switch, in order; all switches are joined to the first one.
# Prints "ready" when the wire is up, "stopped" when it is not, and leaves in FOLDER/NAME.pid the process that holds
# each host's namespaces.
set -eu
folder=$1 relay=$2

host() { # NAME: a host's namespaces, held by a process that does nothing
    # A fresh sysfs shows this host's network devices (UCX reads them); shared memory must not reach another host.
    taskset --cpu-list "$(cat "$folder/$1.cores")" unshare --net --uts --mount --ipc sh -euc '
        mount -t sysfs sysfs /sys
        mount -t tmpfs tmpfs /dev/shm
        mount --bind "$1/hosts" /etc/hosts
        for node in $(cat "$1/$2.hidden"); do mount --bind /dev/null "$node"; done
        hostname "$2"
        echo $$ >"$1/$2.pid.new"
        mv "$1/$2.pid.new" "$1/$2.pid"
        exec sleep infinity' host "$folder" "$1" </dev/null >/dev/null &
}

wait_for() { # FILE: a few seconds at most
    for _ in $(seq 100); do
        if [ -e "$1" ]; then return; fi
        sleep 0.05
    done
    echo "lab.sh: no $1 after 5 s" >&2
    exit 1
}

# Two hosts of their own would not wait for what else this machine does.  Linux shares processors out by sessions
# (sched(7), "The autogroup feature"), and daemons make sessions of their own, hence again and again.  Only root may.
go_first() {
    while sleep 0.25; do
        for session in /proc/[0-9]*/autogroup; do
            { echo -20 >"$session"; } 2>/dev/null || :
        done
    done
}

plug_in() { # NAME ADDRESS SWITCH: a cable between the host, where it is eth0, and the switch, which is a bridge
    process=$(cat "$folder/$1.pid")
    ip link add "$1" type veth peer name eth0 netns "$process"
    ip link set "$1" master "$3" up
    nsenter --target "$process" --net sh -euc 'ip link set lo up; ip address add "$1/24" dev eth0; ip link set eth0 up' \
        host "$2"
}

switches=
if [ "$relay" = switch ]; then
    number=0
    for size in $(shift 2 && echo "$@"); do
        number=$((number + 1))
        ip link add "switch$number" type bridge && ip link set "switch$number" up
        for _ in $(seq "$size"); do switches="$switches switch$number"; done
        if [ "$number" -gt 1 ]; then
            ip link add "up$number" type veth peer name "down$number"
            ip link set "up$number" master "switch$number" up
            ip link set "down$number" master switch1 up
        fi
    done
fi
# shellcheck disable=SC2086  # a word for each host
if [ "$relay" = switch ]; then set -- $switches; fi
ends=
while read -r address name; do
    if [ "$name" = localhost ]; then continue; fi
    host "$name"
    wait_for "$folder/$name.pid"
    if [ "$relay" = switch ]; then plug_in "$name" "$address" "$1" && shift; fi
    ends="$ends $(cat "$folder/$name.pid") $address"
done <"$folder/hosts"

if [ "$relay" = switch ]; then
    echo ready
else
    # shellcheck disable=SC2086  # two words an end
    { "$relay" $ends "$3" "$4" || echo stopped; } </dev/null &
fi
go_first </dev/null >/dev/null &
exec cat >/dev/null
