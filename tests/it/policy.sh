#!/bin/sh
# The manifests' NetworkPolicy, enforced: nftables rules are made of it and stand at the doors of pods in network namespaces. Pods of the ring reach
# each other and train; others, other rings too, do not reach them; DNS and, where a bucket is named, the bucket and the metadata server go through,
# and nothing else. A policy that is not enforced, or has other rules, is found.
. "$(dirname "$0")/common"
WORK=$work $python tests/it/policy.py >"$work/said" 2>&1 </dev/null
grep -vE '^[0-9]+ passed' "$work/said"
add "$work/said"
end
