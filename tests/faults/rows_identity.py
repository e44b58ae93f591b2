#!/usr/bin/python3
"""Row 44: certificates of the job's own CA with names that resemble the job's but are of another
kind; a ring with a URI, and one with DNS names. None is accepted, each is counted, and training
continues."""
from ring import check, job, main, report, row, until
from watched import call, certificates, finish, issued, start, state

CALLS = 3  # on each port


def check_rejected(what, w, cert, reason):
    key = 'qring_tls_refused_total{reason="%s"}' % reason
    before = w.metrics()
    for port in w.ports():
        for _ in range(CALLS): call(port, cert)
    check(f"{what}: counted", until(lambda: w.metrics()[key] >= before[key] + 2 * CALLS, every=0.1))
    after = w.metrics()
    check(f"{what}: {state(after)}", state(before) == state(after) and before["qring_tls_accepted_total"] == after["qring_tls_accepted_total"])
    report(44, what, f"{2 * CALLS} calls, {after[key] - before[key]:.0f} refused as {reason}, {after['qring_tls_accepted_total'] - before['qring_tls_accepted_total']:.0f} accepted",
           f"{2 * CALLS}; 0")


@row(44)
def other_name_kinds():
    name = job("kinds")
    uri = "qring://default/kinds"
    tls = certificates("kinds-tls", name, "--keep-ca")
    r, w = start("kinds", tls=tls)
    check_rejected("a DNS name that is the job's URI", w, issued(tls, "kinds-dns", [f"DNS.1={uri}"]), "unfit")
    check_rejected("an e-mail address that is the job's URI", w, issued(tls, "kinds-mail", [f"email.1={uri}"]), "foreign_job")
    check_rejected("a name of another kind that is the job's URI", w, issued(tls, "kinds-other", [f"otherName.1=1.2.3.4;UTF8:{uri}"]), "foreign_job")
    report(44, "steps, all equal to one worker's", finish(r), "all")


@row(44)
def names_with_comma():
    ca = certificates("commas-ca", job("commas"), "--keep-ca")
    tls = issued(ca, "commas-tls", ["DNS.1=a.commas", "DNS.2=b.commas"])
    r, w = start("commas", tls=tls)
    check_rejected("a DNS name that is the job's two with a comma", w, issued(ca, "commas-dns", ["DNS.1=a.commas,b.commas"]), "unfit")
    check_rejected("a URI that is the job's two with a comma", w, issued(ca, "commas-uri", ["URI.1=a.commas,b.commas"]), "unfit")
    report(44, "steps, all equal to one worker's", finish(r), "all")


main()
