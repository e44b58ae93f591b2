#!/usr/bin/python3
"""The names of a cluster: names.py KUBECONFIG FILE PID writes the addresses of Services, and behind headless ones those of pods that are
ready (or of all, where the Service says publishNotReadyAddresses), as a hosts file, and has dnsmasq, the process PID, read it again. It
reads Endpoints, as every cluster's DNS does, so it knows what the control plane makes of readiness and of hostnames, and nothing else."""
import os
import signal
import sys
import time

from kube import Api, Refused


def lines(api):
    headless = set()
    for s in api.list("v1", "Service"):
        name, ip = "%(name)s.%(namespace)s.svc.cluster.local" % s["metadata"], s["spec"].get("clusterIP")
        if ip == "None":
            headless.add(name)
        elif ip:
            yield "%s %s" % (ip, name)
    for e in api.list("v1", "Endpoints"):
        name = "%(name)s.%(namespace)s.svc.cluster.local" % e["metadata"]
        for a in [a for s in e.get("subsets") or [] for a in s.get("addresses") or [] if name in headless]:
            yield "%s %s" % (a["ip"], name)
            if a.get("hostname"):
                yield "%s %s.%s" % (a["ip"], a["hostname"], name)


def main(config, path, server):
    api, last = Api(config), None
    while True:
        try:
            now = "".join(line + "\n" for line in sorted(set(lines(api))))
        except (OSError, Refused):
            now = last
        if now != last:
            with open(path + ".new", "w", encoding="ascii") as f:
                f.write(now)
            os.rename(path + ".new", path)
            os.kill(server, signal.SIGHUP)
            last = now
        time.sleep(0.3)


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
