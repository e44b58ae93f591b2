#!/usr/bin/python3
import time, os, sys, shutil
from namespaces import *
from ring import check, figure, job, main, row, tell, until
enter()
@row(1)
def x():
  for k in range(4):
    r = Pods(f"x{k}", job("x"), 4, 1500, ["--http-port","8080"], tls=True)
    with Proxy(0, 1, 2, 3, delay_us=500) as p:
        r.start_all()
        p.order("* * port 2222 flip 300000")
        until(lambda: p.count()["flipped"] >= 30 or len(r.alive()) < 4, 20, 0.1)
        print(p.count(), r.alive())
        p.order("* * flip 0")
        at=time.monotonic()
        print(until(lambda: all(r.metrics(i).get("qring_members") == 4 for i in range(4)), 20), time.monotonic()-at)
        if len(r.alive())<4: r.close(); return
    r.wait(); r.same()
    r.close()
main()
