#!/bin/sh
# Starts a comparison program on the cores that the engine gave the same rank: `on_cores.sh "0 1" PROGRAM ARGS...`.
# The list has one entry a local rank (each may be a taskset list, "0-3"); like the engine, it binds before MPI_Init.
# SPDX-License-Identifier: Apache-2.0
cores_of_ranks=$1
shift
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PMI_RANK:?started outside mpirun}}}
# Word splitting is what turns the list into one parameter a rank.
# shellcheck disable=SC2086
cores=$(set -- $cores_of_ranks; shift "$local_rank"; printf %s "$1")
exec taskset -c "$cores" "$@"
