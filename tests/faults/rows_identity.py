#!/usr/bin/python3
"""Row 44: certificates of the job's own CA with names that resemble the job's but are of another
kind; a ring with a URI, and one with DNS names. None is accepted, each is counted, and training
continues."""
from ring import check, job, main, report, row, until
from watched import call, certificates, finish, issued, start, state

CALLS = 3  # on each port


def stand_outside(what, w, cert, reason):
    key = 'qring_tls_refused_total{reason="%s"}' % reason
    before = w.metrics()
    for port in w.ports():
        for _ in range(CALLS): call(port, cert)
    check(f"{what}: counted", until(lambda: w.metrics()[key] >= before[key] + 2 * CALLS, every=0.1))
    after = w.metrics()
    check(f"{what}: {state(after)}", state(before) == state(after) and before["qring_tls_accepted_total"] == after["qring_tls_accepted_total"])
    report(44, what, f"{2 * CALLS} calls, {after[key] - before[key]:.0f} refused as {reason}, {after['qring_tls_accepted_total'] - before['qring_tls_accepted_total']:.0f} taken",
           f"{2 * CALLS}; 0")


@row(44)
def another_kind():
    name = job("kinds")
    uri = "qring://default/kinds"
    tls = certificates("kinds-tls", name, "--keep-ca")
    r, w = start("kinds", tls=tls)
    stand_outside("a DNS name that is the job's URI", w, issued(tls, "kinds-dns", [f"DNS.1={uri}"]), "unfit")
    stand_outside("an e-mail address that is the job's URI", w, issued(tls, "kinds-mail", [f"email.1={uri}"]), "foreign_job")
    stand_outside("a name of another kind that is the job's URI", w, issued(tls, "kinds-other", [f"otherName.1=1.2.3.4;UTF8:{uri}"]), "foreign_job")
    report(44, "steps, each that of one worker alone", finish(r), "all")


@row(44)
def a_comma():
    ca = certificates("commas-ca", job("commas"), "--keep-ca")
    tls = issued(ca, "commas-tls", ["DNS.1=a.commas", "DNS.2=b.commas"])
    r, w = start("commas", tls=tls)
    stand_outside("a DNS name that is the job's two with a comma", w, issued(ca, "commas-dns", ["DNS.1=a.commas,b.commas"]), "unfit")
    stand_outside("a URI that is the job's two with a comma", w, issued(ca, "commas-uri", ["URI.1=a.commas,b.commas"]), "unfit")
    report(44, "steps, each that of one worker alone", finish(r), "all")


main()
