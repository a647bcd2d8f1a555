"""Reasons why there is no connection to an engine, a word each: who mends it does something else for each."""

import errno
import socket
import ssl

from cascadia.router.upstream.errors import Kind

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What a process, or its machine, has run out of."""
_OUT_OF_DATE = frozenset({9, 10})
_ANOTHERS = frozenset({62, 64})
"""OpenSSL's codes (x509_vfy.h): of a certificate not yet valid or no longer; of another host's name or address."""


def kind_of(error: OSError) -> Kind:
    """One of few words, so that no name or address of an engine's gets to a client."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code):
            if code in _OUT_OF_DATE:
                return "certificate-expired"
            return "certificate-name" if code in _ANOTHERS else "certificate-untrusted"
        case ssl.SSLError():
            return "tls"
        case socket.gaierror():
            return "dns"
        case ConnectionRefusedError():
            return "refused"
        case _:
            return "exhausted" if error.errno in EXHAUSTED else "connect"
