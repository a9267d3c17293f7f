"""A web site on this machine, with its faults, and archives to put there."""

import io
import tarfile
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from smoothcert.data.download import RemoteFile

BODY = bytes(range(256)) * 1000
FILE = RemoteFile("digits.gz", sha256(BODY).hexdigest())


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class Torn(Handler):
    """Promises the whole body, sends half of it and hangs up."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[: len(BODY) // 2])


class Silent(Handler):
    """Takes the request and never answers."""

    def do_GET(self):
        self.rfile.read(1)


@contextmanager
def serve(folder, handler=Handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def archive(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
