#!/usr/bin/python3
import time, os, sys, shutil
from namespaces import *
from ring import check, figure, job, main, row, tell, until
enter()
@row(1)
def x():
    r = Pods("x", job("x"), 4, 1500, ["--http-port","8080"], tls=True)
    with Proxy(0, 1, 2, 3, delay_us=500) as p:
        r.start_all()
        print("clean", r.rate(1))
        t0=time.monotonic()
        edges=[]
        for i in range(6):
            for stall in (1, 0):
                p.order(f"3 * stall {stall}")
                p.order(f"* 3 stall {stall}")
                edges.append((time.monotonic()-t0, stall))
                time.sleep(max(0, t0 + i + (1 - stall / 2) - time.monotonic()))
        g=[t-t0 for t,_ in r.growth]
        for (a,s),(b,_) in zip(edges,edges[1:]+[(6,0)]):
            inn=[x for x in g if a<=x<b]
            print("stall" if s else "open", f"{a:.3f}", len(inn), [f"{x-a:.3f}" for x in inn[:1]+inn[-1:]])
    r.wait(); r.same()
main()
