#!/usr/bin/python3
"""compile.py GO FOLDER LINKERFLAGS PACKAGE...: go build of them into FOLDER, from the module of this folder. How much is done, and how long
the rest will take, goes to standard error: a line a minute, or one line that changes where that is a terminal.
Compiling a package takes about as long as it has bytes; linking a program, as long as a megabyte of them."""
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
    """Package to bytes of those that are not in the cache. Modules that are not here yet are fetched meanwhile."""
    found = {}
    fields = "-json=ImportPath,Dir,GoFiles,SFiles,EmbedFiles,Stale,Name" # without embedded files all that has some counts as stale
    with subprocess.Popen([go, "list", "-deps", fields, *packages], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listing:
        text, said = listing.communicate()
    if listing.returncode:
        sys.exit("go list: " + " / ".join(line for line in said.splitlines() if not line.startswith("go: downloading"))[-600:])
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
    print("  fetching what %d programs are made of" % len(packages), file=sys.stderr, flush=True)
    left = weights()
    total, count = sum(left.values()) or 1, len(left)
    began = said = time.monotonic()
    last, done = [], 0
    print("  compiling %d packages, %.0f MB of Go" % (count, total / 1e6), file=sys.stderr, flush=True)
    command = [go, "build", "-v", "-p", str(os.cpu_count()), "-ldflags", flags, "-o", folder + "/", *packages]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as build:
        for line in build.stderr:
            name = line.strip()
            last = (last + [name])[-TAIL:]
            done += left.pop(name, 0)
            now = time.monotonic()
            if now - said >= (0.5 if terminal else 60) and done > total / 50:
                said = now
                rest = (now - began) * (total - done) / done
                print("%s  %d of %d packages, %s, about %s left  " % ("\r" if terminal else "", count - len(left), count,
                      minutes(now - began), minutes(rest)), end="" if terminal else "\n", file=sys.stderr, flush=True)
    if terminal:
        print(file=sys.stderr)
    if build.returncode:
        sys.exit("go build: " + "\n".join(last))
    print("  done after %s" % minutes(time.monotonic() - began), file=sys.stderr, flush=True)


main()
