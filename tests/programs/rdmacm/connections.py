# SPDX-License-Identifier: MIT
"""Pairs of programs that connect by librdmacm: waiting until the server listens, then running the client."""
import contextlib
import pathlib
import re
import socket

import foreign

ACCEPTS = 0x10000  # in /proc/net/unix: a listening socket
NAME = re.compile(r"@verbena-cm-port\.(\d+)\.[0-9a-f]+\.(\d+)")


@contextlib.contextmanager
def port():
    """Yields a port that no other test uses, by holding the TCP port with the number."""
    with socket.socket() as holder:
        holder.bind(("", 0))
        yield holder.getsockname()[1]


def has_listener(table, number, user):
    """Returns whether a program of the user listens on that port of the software device's connection manager. `table` is
    the /proc/net/unix of its network namespace."""
    for line in pathlib.Path(table).read_text().splitlines()[1:]:
        fields = line.split()
        name = NAME.fullmatch(fields[-1])
        if name and (int(name[1]), int(name[2])) == (user, number) and int(fields[3], 16) & ACCEPTS:
            return True
    return False


def listens(number):
    """Returns whether a program of the user under test listens on that port."""
    return has_listener("/proc/net/unix", number, foreign.uid())


def group_users():
    """Returns the number of processes of the user under test that use multicast groups of the software device."""
    names = (line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:])
    return sum(name.startswith(f"@verbena-groups.{foreign.uid()}.") for name in names)


@contextlib.contextmanager
def listening(number, words):
    """Yields the server, once it listens."""
    with foreign.Server(*words) as server:
        server.wait_for_port(number, listens)
        yield server


def server_and_client(number, server_words, client_words):
    """Runs the client as soon as the server listens, and waits for both. Returns (server, client)."""
    with listening(number, server_words) as server:
        return foreign.both_ends(server, *client_words)


def client_of(number, server_words, client_words):
    """Runs the client, waits for its exit, and stops the server."""
    with listening(number, server_words):
        return foreign.run(*client_words)
