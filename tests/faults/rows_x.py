#!/usr/bin/python3
import time, os, sys
from namespaces import *
from ring import check, figure, job, main, row, tell
enter()
import socket, threading
ECHO='''
import socket
s=socket.create_server(("0.0.0.0",7000)); c,_=s.accept(); c.setsockopt(6,1,1)
while True:
    d=c.recv(65536)
    if not d: break
    c.sendall(d)
'''
ASK='''
import socket,time,statistics
c=socket.create_connection(("10.77.0.11",7000)); c.setsockopt(6,1,1)
t=[]
for i in range(2000):
    a=time.monotonic(); c.sendall(b"x"*1000); c.recv(65536); t.append(time.monotonic()-a)
print("rtt median us",statistics.median(t)*1e6, "p99", sorted(t)[1980]*1e6)
'''
def rtt():
    e=subprocess.Popen([*inside(1),sys.executable,"-c",ECHO]); time.sleep(.3)
    run_=subprocess.run([*inside(0),sys.executable,"-c",ASK]); e.kill(); e.wait()
@row(1)
def x():
    pod(0);pod(1)
    rtt()
    with Proxy(0,1) as p:
        rtt(); print(p.count())
        os.setpriority(os.PRIO_PROCESS, p.process.pid, -15)
        rtt(); print(p.count())
    r = Pods("x", job("x"), 4, 3000, ["--min-workers", "1"], tls=False)
    r.start_all()
    print(r.rate(1))
    with Proxy(0, 1, 2, 3) as p:
        for i in range(3): print("proxied", r.rate(.5), p.count())
        os.setpriority(os.PRIO_PROCESS, p.process.pid, -15)
        for i in range(6): print("proxied", r.rate(.5), p.count())
    for i in range(4): print(r.rate(.5))
main()
