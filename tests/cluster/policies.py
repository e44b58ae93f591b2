#!/usr/bin/python3
"""Enforces a cluster's network policies on its node: policies.py KUBECONFIG. The pods' packets pass
the node (CNI plugin ptp), where an nft table accepts and rejects them by the policies. The table is
regenerated when a policy, pod or namespace changes. The node itself reaches every pod, as
Kubernetes requires for probes; packets from pods to the node are checked like other egress."""
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

from kube import Api

api = Api(sys.argv[1])
changed = threading.Event()
seen = {"pods": {}, "namespaces": {}, "policies": {}} # updated by the watchers
now = {kind: {} for kind in seen}                     # snapshot from which the table is generated
PATHS = {"pods": "/api/v1/pods", "namespaces": "/api/v1/namespaces", "policies": "/apis/networking.k8s.io/v1/networkpolicies"}


def key(d):
    return "%s/%s" % (d["metadata"].get("namespace", ""), d["metadata"]["name"])


def watch(kind):
    while True:
        try:
            got = api.ask("GET", PATHS[kind])
            seen[kind] = {key(d): d for d in got["items"]}
            changed.set()
            at = got["metadata"]["resourceVersion"]
            request = urllib.request.Request("%s%s?watch=1&timeoutSeconds=300&resourceVersion=%s" % (api.server, PATHS[kind], at))
            request.add_header("Authorization", "Bearer " + api.token)
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=330) as reply:
                for line in reply:
                    event = json.loads(line)
                    d = event["object"]
                    if event["type"] == "ERROR":
                        break
                    if event["type"] == "DELETED":
                        seen[kind].pop(key(d), None)
                    else:
                        seen[kind][key(d)] = d
                    changed.set()
        except Exception as e: # pylint: disable=broad-except
            print("%s: %s" % (kind, e), flush=True)
            time.sleep(0.5)


def selects(selector, labels):
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    for e in selector.get("matchExpressions") or []:
        has, values = e["key"] in labels, e.get("values") or []
        good = {"In": has and labels.get(e["key"]) in values, "NotIn": not has or labels.get(e["key"]) not in values,
                "Exists": has, "DoesNotExist": not has}[e["operator"]]
        if not good:
            return False
    return True


def address(p):
    """The address of a pod that runs and has its own network, or None."""
    over = p.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return None if over or p["spec"].get("hostNetwork") else p.get("status", {}).get("podIP")


def pods(namespace, selector):
    return sorted(address(p) for p in now["pods"].values()
                  if p["metadata"]["namespace"] == namespace and address(p) and selects(selector, p["metadata"].get("labels") or {}))


def peers(policy, clauses, word):
    """nft matches for a rule's "from" or "to"; [''] matches everything."""
    if not clauses:
        return [""]
    found = []
    for c in clauses:
        if "ipBlock" in c:
            without = c["ipBlock"].get("except")
            found.append("ip %s %s %s" % (word, c["ipBlock"]["cidr"], "ip %s != { %s }" % (word, ", ".join(without)) if without else ""))
            continue
        spaces = [policy["metadata"]["namespace"]]
        if "namespaceSelector" in c:
            spaces = [n["metadata"]["name"] for n in now["namespaces"].values()
                      if selects(c["namespaceSelector"], n["metadata"].get("labels") or {})]
        some = [ip for n in spaces for ip in pods(n, c.get("podSelector") or {})]
        if some:
            found.append("ip %s { %s }" % (word, ", ".join(some)))
    return found


def port_number(port, ips):
    """Numbers of a port. A named port is resolved in the target pods; none may have it."""
    if isinstance(port, int):
        return [port]
    found = {p["containerPort"] for d in now["pods"].values() if address(d) in ips for c in d["spec"]["containers"]
             for p in c.get("ports") or [] if p.get("name") == port}
    return sorted(found)


def ports(rule, targets):
    if not rule.get("ports"):
        return [""]
    found = []
    for p in rule["ports"]:
        protocol = p.get("protocol", "TCP").lower()
        if "port" not in p:
            found.append("meta l4proto %s" % protocol)
        elif "endPort" in p:
            found.append("%s dport %d-%d" % (protocol, p["port"], p["endPort"]))
        else:
            found += ["%s dport %d" % (protocol, n) for n in port_number(p["port"], targets)]
    return found


def chains():
    """Returns {direction: {address: [accept rules]}} for all pods that a policy selects."""
    found = {"Ingress": {}, "Egress": {}}
    for policy in now["policies"].values():
        spec = policy["spec"]
        chosen = pods(policy["metadata"]["namespace"], spec.get("podSelector") or {})
        types = spec.get("policyTypes") or ["Ingress"] + (["Egress"] if "egress" in spec else [])
        for direction, rules, word, side in (("Ingress", "ingress", "saddr", "from"), ("Egress", "egress", "daddr", "to")):
            if direction not in types:
                continue
            allowed = []
            for rule in spec.get(rules) or []:
                targets = chosen if direction == "Ingress" else {address(p) for p in now["pods"].values()}
                allowed += ["%s %s accept" % (source, port) for source in peers(policy, rule.get(side), word) for port in ports(rule, targets)]
            for ip in chosen:
                found[direction].setdefault(ip, []).extend(allowed)
    return found


def table():
    text = ["table ip policies", "delete table ip policies", "table ip policies {"]
    by_direction = chains()
    names = {}
    for direction, by_pod in by_direction.items():
        for ip, allowed in sorted(by_pod.items()):
            names[direction, ip] = name = "%s_%s" % (direction.lower(), ip.replace(".", "_"))
            # "return" instead of "accept": the other side's policy is still to be checked.
            text += [" chain %s {" % name] + ["  " + " ".join(a.replace(" accept", " return").split()) for a in dict.fromkeys(allowed)]
            text += ["  reject with icmp admin-prohibited", " }"]

    def both(word, direction):
        return ["  ip %s %s jump %s" % (word, ip, names[d, ip]) for d, ip in sorted(names) if d == direction]

    text += [" chain forward {", "  type filter hook forward priority 0; policy accept;", "  ct state established,related accept"]
    text += both("saddr", "Egress") + both("daddr", "Ingress") + [" }"]
    text += [" chain input {", "  type filter hook input priority 0; policy accept;", "  ct state established,related accept"]
    text += both("saddr", "Egress") + [" }", "}"]
    return "\n".join(text) + "\n"


def main():
    for kind in PATHS:
        threading.Thread(target=watch, args=(kind,), daemon=True).start()
    last = None
    while True:
        changed.wait()
        changed.clear()
        now.update({kind: dict(found) for kind, found in seen.items()})
        text = table()
        if text != last:
            got = subprocess.run(["nft", "-f", "-"], input=text, text=True, capture_output=True, check=False)
            if got.returncode:
                print("nft: %s\n%s" % (got.stderr, text), flush=True)
            else:
                last = text
        time.sleep(0.05)


main()
