#!/bin/sh
# The engine without the front end: a plan goes in, records come out (docs/records.md). Start it where there is no Python,
# or from a program of your own. volley pingpong --dry-run prints both halves: the plan, and the command that starts the ranks.
#
#     sh examples/engine_alone.sh FOLDER
set -eu
cd "$1"
volley pingpong --transport host --sizes 8,64k --iterations 50 --launches 1 --dry-run >plan.json 2>start.sh
sh start.sh <plan.json >records.jsonl
volley show records.jsonl
