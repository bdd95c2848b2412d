"""Where secrets would arrive: TCP and UDP on loopback, and the names that the browser asked for.

The oracle of every egress case is this sink, never an exception inside the app.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import threading
from pathlib import Path
from typing import Any

PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nAccess-Control-Allow-Origin: *\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)


class Sink:
    """Listens until `close`. `hits` are the first bytes of everything that arrived, with its transport."""

    def __init__(self) -> None:
        self.hits: list[tuple[str, bytes]] = []
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def names(self) -> set[str]:
        """The attempts that arrived, by the path that each asks for."""
        found = (re.match(rb"[A-Z]+ /(\w+)\?", data) for data in self.tcp())
        return {match[1].decode() for match in found if match}

    def tcp(self) -> list[bytes]:
        return [data for kind, data in self.hits if kind == "tcp"]

    def udp(self) -> list[bytes]:
        return [data for kind, data in self.hits if kind == "udp"]

    def clear(self) -> None:
        self.hits.clear()

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for listener in (self._tcp, self._udp):
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            while not self._stop.is_set():
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._udp:
                        self.hits.append(("udp", self._udp.recv(2048)))
                    else:
                        # A connection that says nothing keeps none of the others waiting.
                        connection, _ = self._tcp.accept()
                        threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(0.5)
            try:
                data = connection.recv(2048)
                connection.sendall(PAGE)
            except OSError:
                data = b""
        self.hits.append(("tcp", data))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2)
        self._tcp.close()
        self._udp.close()


def names_asked(netlog: Path) -> set[str]:
    """Host names that a closed browser tried to resolve, from its network log."""
    text = netlog.read_text(encoding="utf-8", errors="replace")
    try:
        log = json.loads(text)
    except ValueError:
        # A browser that was killed leaves the list open.
        log = json.loads(text.rstrip().rstrip(",") + "]}")
    return {str(host) for event in log["events"] for host in _hosts(event.get("params") or {})}


def _hosts(params: dict[str, Any]) -> list[str]:
    host = params.get("host")
    return [str(host)] if host else []
