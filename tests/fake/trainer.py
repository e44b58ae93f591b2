#!/usr/bin/python3
"""Kubeflow Trainer's status server and the part of Kubernetes' API that patches an object, for tests, on loopback: HTTPS with the certificate that is
given, HTTP with "-". It answers as FOLDER/mode says (a status, or: hang, cut, html, short), and 401 to another token than FOLDER/want-token has (none
is wanted where that file is not). FOLDER/log gets a line of JSON for each request, FOLDER/port the port.
trainer.py FOLDER CERT KEY"""
import http.server, json, os, socketserver, ssl, sys, time

folder, cert, key = sys.argv[1:]


def read(name, otherwise=""):
    try:
        with open(os.path.join(folder, name)) as f:
            return f.read().strip()
    except FileNotFoundError:
        return otherwise


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message):
        self.answer(status, {"kind": "Status", "status": "Failure", "message": message, "code": status})

    def take(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        mode, want = read("mode", "200"), read("want-token")
        given = self.headers.get("authorization", "")
        right = given == ("Bearer " + want if want else "")
        line = {"at": time.monotonic(), "method": self.command, "path": self.path, "type": self.headers.get("content-type"), "token": right,
                "mode": mode, "body": json.loads(data), "peer": self.client_address[1]}
        with open(os.path.join(folder, "log"), "a") as f:
            f.write(json.dumps(line) + "\n")
        if mode == "hang":
            time.sleep(3600)
        elif mode == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            self.close_connection = True
        elif mode == "short":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            self.close_connection = True
        elif mode == "html":
            self.answer(503, b"<html>the proxy is tired</html>")
        elif not right:
            self.refuse(401, "Unauthorized")
        elif mode != "200":
            self.refuse(int(mode), "planted, %s" % mode)
        else:
            self.answer(200, line["body"])

    do_POST = do_PATCH = take

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
if cert != "-":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(os.path.join(folder, "port.new"), "w") as f:
    f.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
