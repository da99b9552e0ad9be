"""Three kinds of text, the same on every machine: code, prose and noise.

Neither is in the training text. What a temperature does to α depends on how sure the two
models are, and that depends on what they read.
"""

from __future__ import annotations

import string

import numpy as np

CODE = '''\
import logging
import socket
import struct
import threading

logger = logging.getLogger(__name__)
HEADER = struct.Struct("!IH")


class FrameError(ValueError):
    """Raised when a frame on the wire is malformed."""


class Connection:
    """A client connection that sends and receives length-prefixed frames."""

    def __init__(self, host, port, timeout=None):
        self.host = host
        self.port = port
        self.timeout = timeout
        self._lock = threading.Lock()
        self._sock = None

    def connect(self):
        """Open the socket unless it is already open."""
        if self._sock is not None:
            return
        self._sock = socket.create_connection((self.host, self.port), self.timeout)
        logger.debug("connected to %s:%d", self.host, self.port)

    def send_frame(self, kind, payload):
        """Send one frame and return the number of bytes written."""
        if not isinstance(payload, bytes):
            raise TypeError("payload must be bytes, not %s" % type(payload).__name__)
        data = HEADER.pack(len(payload), kind) + payload
        with self._lock:
            self._sock.sendall(data)
        return len(data)

    def read_frame(self):
        """Read one frame and return its kind and its payload."""
        size, kind = HEADER.unpack(self._read_exactly(HEADER.size))
        if size > self.limit:
            raise FrameError("frame of %d bytes is too large" % size)
        return kind, self._read_exactly(size)

    def _read_exactly(self, count):
        chunks = []
        while count > 0:
'''

PROSE = '''\
def open_archive(path, mode="r", encoding=None):
    """Open the archive at path and return an object that reads its members.

    The archive is opened lazily: no member is read before it is asked for, and
    a member that was read once is kept until the archive is closed. If the file
    does not exist, an OSError is raised. If it exists but is not an archive, the
    error says which bytes were found at its beginning.

    The optional encoding argument is the name of the encoding used to decode
    the names of the members. When it is omitted or None, names are decoded as
    UTF-8, and a name that is not valid UTF-8 is returned as bytes. The default
    is what most programs write, so callers rarely need to change it.

    Note that closing the archive does not close a member that is still open.
    Such a member keeps its own reference to the underlying file, and the file
    is closed when the last of them is. Use the archive as a context manager to
    make sure that this happens even when an exception is raised in the body of
    the with statement.

    Members are returned in the order in which they were added. To get them
    in another order, sort the list that is returned by the names method. This
    function is not safe to call from several threads at the same
'''

NOISE_LETTERS = 500


def list_kinds() -> dict[str, str]:
    """The texts by the name of their kind; the last line of code and prose is open.

    >>> list(list_kinds())
    ['code', 'prose', 'noise']
    """
    letters = list(string.ascii_letters + string.digits + string.punctuation + "   \n")
    drawn = np.random.default_rng(7).choice(letters, NOISE_LETTERS)
    return {"code": CODE, "prose": PROSE, "noise": "".join(drawn)}


def read_rows(pair, text: str, skip: int = 24, most: int = 320) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, V) of target and draft after every token of ``text`` but the first ``skip``.

    At most ``most`` tokens are read. The contexts are those of the text, whatever anybody
    would sample: this keeps what T does to the rule apart from what it does to the text.
    Raises ValueError for a text of no more than ``skip`` tokens.
    """
    tokens = pair.encode(text)[:most]
    if len(tokens) <= skip:
        raise ValueError(f"the text has {len(tokens)} tokens: give more than {skip}, or skip fewer")
    p, q = (
        model.forward(tokens, model.new_cache()).logit_rows()[skip:]
        for model in (pair.target, pair.draft)
    )
    return p, q
