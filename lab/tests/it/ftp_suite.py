"""Runs pyftpdlib's functional tests, a test suite of FTP servers, against `farline serve`.

Usage: ftp_suite.py FARLINE CERTIFICATE KEY CLASS... [-TEST...]; runs the classes without those tests, and prints `ok`, `skip` or `fail`, the test's name and in what
it failed, a line each. The tests' server is replaced by a node for the folder that this runs in, and their
client by one over TLS, over which alone a node takes passwords, with data of the control connection's session.
"""

import ftplib
import json
import os
import re
import ssl
import subprocess
import sys
import traceback
import unittest

# argon2id of 12345, the suite's password, by argon2-cffi.
HASH = "$argon2id$v=19$m=1024,t=1,p=1$ZmFybGluZWZhcmxpbmU$did3vjBoy/aGjRAfa22THGCFC7wGjjOJEHQjbBLQhQ0"

FARLINE, CERTIFICATE, KEY = sys.argv[1:4]
LEFT_OUT = [word[1:] for word in sys.argv[4:] if word.startswith("-")]

import pytest

import pyftpdlib.test as suite
import pyftpdlib.test.test_functional as functional


class Words:
    """pytest, to which a reply's code counts and not its words: those are each server's own."""

    def raises(self, kind, match=None):
        code = re.match(r"\d{3}", match or "")
        return pytest.raises(kind, match=code and code.group())

    def __getattr__(self, name):
        return getattr(pytest, name)


functional.pytest = Words()


class First:
    """random, whose choice is the same in each run; the suite asks for help on any one command that it knows."""

    @staticmethod
    def choice(items):
        return items[0]


functional.random = First()


# Those that were not stopped, because their test failed before.
NODES = []


class Node:
    """In the place of pyftpdlib's server."""

    def __init__(self, addr=None):
        host = (addr or ("127.0.0.1", 0))[0]
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        self.config = os.path.join(os.path.dirname(CERTIFICATE), f"node{id(self)}.toml")
        with open(self.config, "w") as file:
            file.write(
                f'root = "{os.getcwd()}"\nlisten = "{listen}"\nanonymous = "read"\n'
                f'tls_cert = "{CERTIFICATE}"\ntls_key = "{KEY}"\n'
                f'[[identity]]\nname = "{suite.USER}"\npassword = "{HASH}"\npaths = {{ "/" = "write" }}\n'
            )
        command = [FARLINE, "--json", "serve", self.config]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        address = json.loads(self.process.stdout.readline())["address"]
        self.host, port = address.rsplit(":", 1)
        self.host, self.port = self.host.strip("[]"), int(port)

    def start(self):
        NODES.append(self)

    def stop(self):
        NODES.remove(self)
        self.process.terminate()
        self.process.stdout.close()
        self.process.wait()
        os.unlink(self.config)


class Client(ftplib.FTP_TLS):
    """Control and data under TLS before anybody logs in, data in the control connection's session."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, context=ssl._create_unverified_context(), **kwargs)

    def connect(self, *args, **kwargs):
        welcome = super().connect(*args, **kwargs)
        self.auth()
        self.prot_p()
        return welcome

    def login(self, user="", passwd="", acct="", secure=True):
        return ftplib.FTP.login(self, user, passwd, acct)

    def ntransfercmd(self, cmd, rest=None):
        # ftplib begins a session of its own for data.
        data, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        data = self.context.wrap_socket(data, server_hostname=self.host, session=self.sock.session)
        return data, size


class Names(unittest.TestResult):
    """Prints what became of each test."""

    def said(self, word, test, why=""):
        name = test.id().split("test_functional.", 1)[-1]
        print(word, name, why.replace("\n", " ")[:300], flush=True)

    def addSuccess(self, test):
        self.said("ok", test)

    def addSkip(self, test, reason):
        self.said("skip", test, reason)

    def failed(self, test, error):
        # Within the suite: what was expected, and not by whose code it was found out.
        lines = [frame.line for frame in traceback.extract_tb(error[2]) if "pyftpdlib" in frame.filename]
        self.said("fail", test, f"{error[0].__name__}: {error[1]} at: {lines[-1] if lines else '?'}")

    addFailure = addError = lambda self, test, error: self.failed(test, error)


# What a failed test leaves open is not the next one's fault.
suite.assert_free_resources = lambda *args: None
# A busy machine may take longer than the suite's two seconds.
functional.GLOBAL_TIMEOUT = 20
loader, tests = unittest.TestLoader(), unittest.TestSuite()
for name in [word for word in sys.argv[4:] if not word.startswith("-")]:
    kind = getattr(functional, name)
    kind.server_class, kind.client_class = Node, Client
    names = loader.getTestCaseNames(kind)
    tests.addTests(kind(test) for test in names if f"{name}.{test}" not in LEFT_OUT)
tests.run(Names())
for node in NODES[:]:
    node.stop()
