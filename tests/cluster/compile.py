#!/usr/bin/python3
"""compile.py GO FOLDER LINKERFLAGS PACKAGE...: builds the packages of the current folder's module
into FOLDER. Prints progress and the estimated remaining time to standard error: a line a minute, or
one updated line on a terminal. The estimate takes the time of a package as proportional to its
bytes, and that of linking a program as that of a megabyte."""
import json
import os
import subprocess
import sys
import time

go, folder, flags = sys.argv[1:4]
packages = sys.argv[4:]
LINK = 1_000_000
TAIL = 12


def weights():
    """Returns {package: bytes} for packages missing in Go's cache. Downloads missing modules."""
    found = {}
    fields = "-json=ImportPath,Dir,GoFiles,SFiles,EmbedFiles,Stale,Name" # without EmbedFiles, packages that embed files count as stale
    with subprocess.Popen([go, "list", "-deps", fields, *packages], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listing:
        text, errors = listing.communicate()
    if listing.returncode:
        sys.exit("go list: " + " / ".join(line for line in errors.splitlines() if not line.startswith("go: downloading"))[-600:])
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        p, at = decoder.raw_decode(text, at)
        while at < len(text) and text[at].isspace():
            at += 1
        if p.get("Stale"):
            size = sum(os.path.getsize(os.path.join(p["Dir"], f)) for f in p.get("GoFiles", []) + p.get("SFiles", []))
            found[p["ImportPath"]] = size + (LINK if p["Name"] == "main" else 0)
    return found


def minutes(seconds):
    return "%.0f s" % seconds if seconds < 90 else "%.0f min" % (seconds / 60)


def main():
    terminal = sys.stderr.isatty()
    print("  downloading the modules of %d programs" % len(packages), file=sys.stderr, flush=True)
    left = weights()
    total, count = sum(left.values()) or 1, len(left)
    began = printed = time.monotonic()
    last, done = [], 0
    print("  compiling %d packages, %.0f MB of Go" % (count, total / 1e6), file=sys.stderr, flush=True)
    command = [go, "build", "-v", "-p", str(os.cpu_count()), "-ldflags", flags, "-o", folder + "/", *packages]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as build:
        for line in build.stderr:
            name = line.strip()
            last = (last + [name])[-TAIL:]
            done += left.pop(name, 0)
            now = time.monotonic()
            if now - printed >= (0.5 if terminal else 60) and done > total / 50:
                printed = now
                rest = (now - began) * (total - done) / done
                print("%s  %d of %d packages, %s, about %s left  " % ("\r" if terminal else "", count - len(left), count,
                      minutes(now - began), minutes(rest)), end="" if terminal else "\n", file=sys.stderr, flush=True)
    if terminal:
        print(file=sys.stderr)
    if build.returncode:
        sys.exit("go build: " + "\n".join(last))
    print("  done after %s" % minutes(time.monotonic() - began), file=sys.stderr, flush=True)


main()
