#!/bin/sh
# The manifests' NetworkPolicy, enforced by nftables rules made from it, in the network namespaces
# of pods. Pods of the ring reach each other and train; other pods and rings do not reach them;
# DNS and, where configured, the bucket and the metadata server are reachable, and nothing else. A
# policy that is not enforced, or has other rules, is detected.
. "$(dirname "$0")/common"
WORK=$work $python tests/it/policy.py >"$work/output" 2>&1 </dev/null
grep -vE '^[0-9]+ passed' "$work/output"
add "$work/output"
end
