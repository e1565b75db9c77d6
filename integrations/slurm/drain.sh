#!/bin/sh
# Drains the nodes that a check of many nodes found bad: volley check … --format json | drain.sh
# It never drains a whole switch, a link, or a pair of nodes of which one is good.
python3 -c '
import json, sys
for each in json.load(sys.stdin)["findings"]:
    if each["verdict"] == "FAIL" and each["drain"]:
        for node in each["nodes"]:
            print(node, each["why"].replace("\n", " "), sep="\t")
' | while IFS="$(printf '\t')" read -r node why; do
    scontrol update NodeName="$node" State=DRAIN Reason="volley: $why"
done
